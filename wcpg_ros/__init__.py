"""The controller: Worst Cases Policy Gradients, its policies and what measures them."""
