"""The launch API that the real packages and `standalone/` share, and a check that a launch file uses nothing else.

The table was read off the sources of ROS 2 Jazzy (launch 3.4, launch_ros 0.26): each name, its positional arguments,
and the keyword arguments that `standalone/` knows too.
"""

from __future__ import annotations

import ast
from pathlib import Path

_PROCESS = ('name prefix cwd env additional_env shell sigterm_timeout sigkill_timeout output on_exit respawn '
            'respawn_delay condition')

# name: (positional arguments, which may also be given by keyword; arguments by keyword only)
SHARED: dict[str, tuple[str, str]] = {
    'launch.LaunchDescription': ('initial_entities', ''),
    'launch.LaunchContext': ('', 'argv noninteractive'),
    'launch.LaunchService': ('', 'argv noninteractive debug'),
    'launch.LaunchDescriptionEntity': ('', ''),
    'launch.Action': ('', 'condition'),
    'launch.Condition': ('', 'predicate'),
    'launch.Event': ('', ''),
    'launch.EventHandler': ('', 'matcher entities handle_once'),
    'launch.SomeSubstitutionsType': ('', ''),
    'launch.Substitution': ('', ''),
    'launch.actions.DeclareLaunchArgument': ('name', 'default_value description choices condition'),
    'launch.actions.EmitEvent': ('', 'event condition'),
    'launch.actions.ExecuteProcess': ('', f'cmd {_PROCESS}'),
    'launch.actions.GroupAction': ('actions', 'scoped launch_configurations condition'),
    'launch.actions.IncludeLaunchDescription': ('launch_description_source', 'launch_arguments condition'),
    'launch.actions.LogInfo': ('', 'msg condition'),
    'launch.actions.OpaqueFunction': ('', 'function args kwargs condition'),
    'launch.actions.RegisterEventHandler': ('event_handler', 'condition'),
    'launch.actions.SetEnvironmentVariable': ('name value', 'condition'),
    'launch.actions.SetLaunchConfiguration': ('name value', 'condition'),
    'launch.actions.Shutdown': ('', 'reason condition'),
    'launch.actions.TimerAction': ('', 'period actions condition'),
    'launch.actions.UnregisterEventHandler': ('event_handler', 'condition'),
    'launch.conditions.IfCondition': ('predicate_expression', ''),
    'launch.conditions.UnlessCondition': ('predicate_expression', ''),
    'launch.conditions.evaluate_condition_expression': ('context expression', ''),
    'launch.event_handlers.OnProcessExit': ('', 'target_action on_exit handle_once'),
    'launch.event_handlers.OnProcessStart': ('', 'target_action on_start handle_once'),
    'launch.event_handlers.OnShutdown': ('', 'on_shutdown handle_once'),
    'launch.events.Shutdown': ('', 'reason due_to_sigint'),
    'launch.events.matches_action': ('target_action', ''),
    'launch.events.process.ProcessExited': ('', 'returncode action name cmd cwd env pid'),
    'launch.events.process.ProcessStarted': ('', 'action name cmd cwd env pid'),
    'launch.events.process.ShutdownProcess': ('', 'process_matcher'),
    'launch.events.process.SignalProcess': ('', 'signal_number process_matcher'),
    'launch.launch_description_sources.AnyLaunchDescriptionSource': ('launch_file_path', ''),
    'launch.launch_description_sources.PythonLaunchDescriptionSource': ('launch_file_path', ''),
    'launch.logging.get_logger': ('name', ''),
    'launch.substitutions.EnvironmentVariable': ('name', 'default_value'),
    'launch.substitutions.FindExecutable': ('', 'name'),
    'launch.substitutions.LaunchConfiguration': ('variable_name', 'default'),
    'launch.substitutions.PathJoinSubstitution': ('substitutions', ''),
    'launch.substitutions.PythonExpression': ('expression python_modules', ''),
    'launch.substitutions.TextSubstitution': ('', 'text'),
    'launch.substitutions.ThisLaunchFile': ('', ''),
    'launch.substitutions.ThisLaunchFileDir': ('', ''),
    'launch.utilities.normalize_to_list_of_substitutions': ('subs', ''),
    'launch.utilities.perform_substitutions': ('context subs', ''),
    'launch_ros.actions.Node': (
        '', 'executable package namespace exec_name parameters remappings ros_arguments arguments ' + _PROCESS),
    'launch_ros.descriptions.Parameter': ('name value', 'value_type'),
    'launch_ros.descriptions.ParameterFile': ('param_file', ''),
    'launch_ros.descriptions.ParameterValue': ('value', 'value_type'),
    'launch_ros.parameter_descriptions.Parameter': ('name value', 'value_type'),
    'launch_ros.parameter_descriptions.ParameterFile': ('param_file', ''),
    'launch_ros.parameter_descriptions.ParameterValue': ('value', 'value_type'),
    'launch_ros.substitutions.ExecutableInPackage': ('executable package', ''),
    'launch_ros.substitutions.FindPackagePrefix': ('package', ''),
    'launch_ros.substitutions.FindPackageShare': ('package', ''),
}
MODULES = {name.rpartition('.')[0] for name in SHARED} | {'launch_ros'}


def problems(launch_file: Path) -> list[str]:
    """Return what a launch file uses of the launch packages that is not shared, one line each."""
    tree = ast.parse(launch_file.read_text(), str(launch_file))
    known: dict[str, str] = {}      # local name: full name of a module or of what is in one
    found: list[str] = []

    def report(node: ast.AST, problem: str) -> None:
        found.append(f'{launch_file}:{getattr(node, "lineno", 0)}: {problem}')

    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or '').split('.')[0] in ('launch', 'launch_ros'):
            for alias in node.names:
                full = f'{node.module}.{alias.name}'
                known[alias.asname or alias.name] = full
                if full not in SHARED and full not in MODULES:
                    report(node, f'{full} is not shared')
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split('.')[0] in ('launch', 'launch_ros'):
                    known[alias.asname or alias.name.split('.')[0]] = alias.name if alias.asname else \
                        alias.name.split('.')[0]
                    if alias.name not in MODULES:
                        report(node, f'{alias.name} is not shared')

    def full_name(node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return known.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = full_name(node.value)
            return f'{owner}.{node.attr}' if owner in MODULES else None
        return None

    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = full_name(node)
            if name is not None and name not in SHARED and name not in MODULES:
                report(node, f'{name} is not shared')
        elif isinstance(node, ast.Call) and (name := full_name(node.func)) in SHARED:
            positional, keywords = (names.split() for names in SHARED[name])
            if len(node.args) > len(positional) and not any(isinstance(arg, ast.Starred) for arg in node.args):
                report(node, f'{name} takes {len(positional)} positional arguments')
            for keyword in node.keywords:
                if keyword.arg is not None and keyword.arg not in positional + keywords:
                    report(node, f'{name}({keyword.arg}=) is not shared')
    return found
