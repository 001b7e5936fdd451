"""Launch files may only use what the real launch packages and standalone/ share."""

import importlib
import inspect
from pathlib import Path

import pytest
from launch_api import SHARED, problems

pytest.importorskip('ros2_standalone', reason='a ROS 2 distribution is used instead of standalone/')

ROOT = Path(__file__).parents[1]


def accepted(thing: object) -> set[str] | None:
    """The keywords a class or function takes, by itself or through its base classes; None when it is no such thing."""
    if not inspect.isclass(thing):
        return set(inspect.signature(thing).parameters) if inspect.isfunction(inspect.unwrap(thing)) else None
    names: set[str] = set()
    for cls in thing.__mro__:
        if cls is object or '__init__' not in vars(cls):
            continue
        parameters = inspect.signature(vars(cls)['__init__']).parameters.values()
        names |= {parameter.name for parameter in parameters}
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return names


@pytest.mark.parametrize('name', sorted(SHARED))
def test_standalone_has_what_the_table_says_is_shared(name: str) -> None:
    module, _, attribute = name.rpartition('.')
    takes = accepted(getattr(importlib.import_module(module), attribute))
    if takes is not None:
        assert set(' '.join(SHARED[name]).split()) <= takes


@pytest.mark.parametrize('launch_file', sorted([*ROOT.glob('launch/*.launch.py'), *ROOT.glob('wcpg_ros/launching.py')]),
                         ids=lambda path: path.name)
def test_launch_files_use_only_what_is_shared(launch_file: Path) -> None:
    assert problems(launch_file) == []


def test_a_launch_file_that_uses_more_is_found_out(tmp_path: Path) -> None:
    file = tmp_path / 'more.launch.py'
    file.write_text('''\
import launch
import launch_ros.actions
from launch.actions import ExecuteProcess as Run, OpaqueCoroutine
from launch.frontend import Parser
def generate_launch_description():
    return launch.LaunchDescription([
        Run(cmd=['x'], emulate_tty=True, output='screen'),
        launch.actions.LogInfo('hello'),
        launch.actions.ResetEnvironment(),
        launch_ros.actions.Node(package='a', executable='b', name='c', parameters=[{}])])
''')
    assert [problem.split(':', 2)[1:] for problem in problems(file)] == [
        ['3', ' launch.actions.OpaqueCoroutine is not shared'],
        ['4', ' launch.frontend.Parser is not shared'],
        ['7', ' launch.actions.ExecuteProcess(emulate_tty=) is not shared'],
        ['8', ' launch.actions.LogInfo takes 0 positional arguments'],
        ['9', ' launch.actions.ResetEnvironment is not shared']]


@pytest.mark.parametrize(('module', 'name'), [
    ('launch.actions', 'OpaqueCoroutine'), ('launch.substitutions', 'AnonName'), ('launch_ros.actions', 'SetRemap')])
def test_a_name_that_is_missing_says_what_to_do(module: str, name: str) -> None:
    with pytest.raises(ImportError, match=rf'{module}.{name}: not supported here, install a ROS 2 distribution'):
        getattr(importlib.import_module(module), name)


def test_a_keyword_that_is_missing_says_what_to_do() -> None:
    node = importlib.import_module('launch_ros.actions').Node
    with pytest.raises(TypeError, match=r'Node\(emulate_tty\): not supported here, install a ROS 2 distribution'):
        node(package='a', executable='b', emulate_tty=True)
