"""The world: roads, vehicles, drivers and the batched stepper of the two driving scenes."""
