"""The program `wcpg`: the policy as a ROS node."""

import sys

from sim_node.starting import start


def main() -> int:
    """Run the policy until it is told to stop."""
    return start('wcpg_ros.policy_node')


if __name__ == '__main__':
    sys.exit(main())
