"""How standalone/ finds packages: by the ament index, and as pip installs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

packages = pytest.importorskip('ros2_standalone.packages', reason='a ROS 2 distribution is used instead of standalone/')


@pytest.fixture(autouse=True)
def forget() -> None:
    packages.find.cache_clear()


def ament_package(prefix: Path, name: str) -> None:
    """Lay out a package as `colcon build` installs it."""
    for file, mode in ((f'share/ament_index/resource_index/packages/{name}', 0o644),
                       (f'share/{name}/launch/turn.launch.py', 0o644),
                       (f'lib/{name}/drive', 0o755), (f'lib/{name}/notes.txt', 0o644)):
        path = prefix / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode)


def test_the_ament_index_is_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for overlay in ('over', 'under'):
        ament_package(tmp_path / overlay, 'car')
    ament_package(tmp_path / 'under', 'road')
    monkeypatch.setenv('AMENT_PREFIX_PATH', f"{tmp_path / 'over'}:{tmp_path / 'under'}")
    car = packages.find('car')
    assert (car.prefix, car.share) == (tmp_path / 'over', tmp_path / 'over' / 'share' / 'car')
    assert car.executables() == [tmp_path / 'over' / 'lib' / 'car' / 'drive']
    assert car.find_share_file('turn.launch.py') == [car.share / 'launch' / 'turn.launch.py']
    assert packages.find('road').prefix == tmp_path / 'under'
    assert {'car', 'road'} <= set(packages.names())


def test_a_package_that_is_not_there_says_where_was_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path))
    with pytest.raises(packages.PackageNotFoundError, match=f"package 'boat' not found, searching: \\['{tmp_path}'"):
        packages.find('boat')


def test_this_package_is_found_as_pip_has_installed_it() -> None:
    package = packages.find('wcpg_ros')
    assert (package.share / 'package.xml').is_file()
    scripts = {path.name: path for path in package.executables()}
    assert scripts['evaluate'].is_file()
    assert 'wcpg_ros' in packages.names()


def test_the_messages_come_from_the_wheels() -> None:
    pytest.importorskip('std_msgs', reason='needs the ros extra')
    assert (packages.find('std_msgs').share / 'msg' / 'Header.msg').is_file()


@pytest.mark.parametrize('editable', [True, False], ids=['checkout', 'wheel'])
def test_a_package_that_pip_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editable: bool) -> None:
    """Share files come from the checkout or from the prefix, programs are in bin either way."""
    source, prefix, site = (tmp_path / name for name in ('my source', 'prefix', 'site'))
    monkeypatch.setattr(packages.sys, 'prefix', str(prefix))
    monkeypatch.setattr(packages.sysconfig, 'get_path', lambda name: str(prefix / 'bin'))
    monkeypatch.syspath_prepend(site)
    monkeypatch.delenv('AMENT_PREFIX_PATH', raising=False)
    info = site / 'car-1.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: car\nVersion: 1\n')
    (info / 'entry_points.txt').write_text('[console_scripts]\ndrive = car:main\n')
    share = source if editable else prefix / 'share' / 'car'
    for folder in (share / 'launch', share / 'build' / 'launch'):
        folder.mkdir(parents=True)
    (share / 'launch' / 'turn.launch.py').touch()
    (share / 'package.xml').write_text('<package format="3"><name>car</name></package>')
    if editable:
        (info / 'direct_url.json').write_text(json.dumps({'url': source.as_uri(), 'dir_info': {'editable': True}}))
        (share / 'build' / 'launch' / 'turn.launch.py').touch()   # must not be taken for a second one
    else:
        index = prefix / 'share' / 'ament_index' / 'resource_index' / 'packages'
        index.mkdir(parents=True)
        (index / 'car').touch()
    car = packages.find('car')
    assert car.share == share
    assert car.executables() == [prefix / 'bin' / 'drive']
    assert car.find_share_file('turn.launch.py') == [share / 'launch' / 'turn.launch.py']
    assert 'car' in packages.names()
