"""The package describes itself the same way in every place that describes it."""

import re
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent


def test_package_xml_and_setup_py_agree_on_name_version_and_licence() -> None:
    manifest = ElementTree.parse(ROOT / 'package.xml').getroot()
    setup = (ROOT / 'setup.py').read_text()
    assert f"PACKAGE = '{manifest.findtext('name')}'" in setup
    for field in ('version', 'license'):
        stated = re.search(rf"{field}='([^']+)'", setup)
        assert stated is not None
        assert stated[1] == manifest.findtext(field)
