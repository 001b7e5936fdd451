"""The program `sim`: the simulator as a ROS node."""

import sys

from sim_node.starting import start


def main() -> int:
    """Run the simulator until its episodes are over or it is told to stop."""
    return start('sim_node.node')


if __name__ == '__main__':
    sys.exit(main())
