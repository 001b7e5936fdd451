"""What WCPG is compared with: DDPG, PPO, C51 and D4PG, trained and measured on the same terms."""
