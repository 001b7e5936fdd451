"""Seeded traffic for a controller in CI; see docs/testing.md."""

from patient_driver import PatientDriver


def test_the_patient_driver_never_hits_anybody(traffic_scene):
    result = traffic_scene.drive(PatientDriver, scenario='left_turn', episodes=20, seed=7)
    assert result.collisions == 0
    assert result.unanswered == 0
    assert result.successes >= 15
