# Two commands matter: `make demo` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet

# A sourced ROS 2 distribution is used as it is. Without one, rclpy and the messages come as wheels, and the `ros2`
# command and the launch API from standalone/.
HAVE_ROS    := $(if $(ROS_DISTRO),$(shell $(PYTHON) -c 'import rclpy' 2>/dev/null && echo yes))
HAVE_LAUNCH := $(if $(ROS_DISTRO),$(shell $(PYTHON) -c 'import launch_ros' 2>/dev/null && echo yes))
VENV_FLAGS  := $(if $(HAVE_ROS),--system-site-packages)
# By path, not by setuptools' import hooks: those lose against the folder launch/ here, which Python takes for a package.
EDITABLE    := --config-settings editable_mode=compat --editable
# Every command of the README, and no torch.
PACKAGES    := $(EDITABLE) '.[$(if $(HAVE_ROS),,ros,)bags,gym,pictures,train]' $(if $(HAVE_LAUNCH),,--editable ./standalone)

.PHONY: demo test lint results results-quick clean

# A distribution's own `ros2` finds packages that colcon has built, ours those that are installed in .venv.
demo: $(VENV)/.drive
ifdef HAVE_LAUNCH
	colcon build --packages-select wcpg_ros
	. install/setup.sh && PYTHONPATH="$(CURDIR)/$(wildcard $(VENV)/lib/python3*/site-packages):$$PYTHONPATH" ros2 launch wcpg_ros left_turn.launch.py
else
	$(BIN)/ros2 launch wcpg_ros left_turn.launch.py
endif

test: $(VENV)/.test lint
	$(BIN)/python -m pytest

# docs/results.md and the README's table from the model files: what has been measured before is not measured again. The
# small version is in results/quick/. Missing models: `python -m wcpg_ros.results.training`.
results: $(VENV)/.test
	$(BIN)/python -m wcpg_ros.results.page --update README.md

results-quick: $(VENV)/.test
	$(BIN)/python -m wcpg_ros.results.page --quick

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy

# Launch files, recipes and models are installed as copies: `ros2 launch` reads those.
$(VENV)/.drive: setup.py standalone/setup.py $(wildcard launch/*.launch.py config/* models/*.safetensors)
	$(PYTHON) -m venv $(VENV_FLAGS) $(VENV)
	$(PIP) $(PACKAGES)
	touch $@

$(VENV)/.test: $(VENV)/.drive
	$(PIP) torch==2.13.0
	$(PIP) $(EDITABLE) '.[baselines,results,ray,minari,test]'
	touch $@

clean:
	rm -rf $(VENV) build install log *.egg-info .pytest_cache .mypy_cache .ruff_cache
