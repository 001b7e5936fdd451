"""The `ros2` command for a machine with no ROS 2 distribution, thin over rclpy."""
