# Two commands matter: `make demo` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# A sourced ROS 2 distribution is used as it is; without one, rclpy and the messages come as wheels.
HAVE_ROS := $(shell $(PYTHON) -c 'import rclpy' 2>/dev/null && echo yes)
VENV_FLAGS := $(if $(HAVE_ROS),--system-site-packages)
ROS_WHEELS := $(if $(HAVE_ROS),,$(comma)ros)
comma := ,

.PHONY: demo test lint clean

demo: $(VENV)/.drive
	$(BIN)/python -m wcpg_ros.evaluate --scenario left_turn --controller gap:3.0 --episodes 1000

test: $(VENV)/.test lint
	$(BIN)/python -m pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy

$(VENV)/.drive: setup.py
	$(PYTHON) -m venv $(VENV_FLAGS) $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.test: $(VENV)/.drive
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[gym,pictures,train,baselines,test]'
	touch $@

clean:
	rm -rf $(VENV) build install log *.egg-info .pytest_cache .mypy_cache .ruff_cache
