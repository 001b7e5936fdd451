"""Fixtures that several test files share."""

pytest_plugins = ['ros_domain']
