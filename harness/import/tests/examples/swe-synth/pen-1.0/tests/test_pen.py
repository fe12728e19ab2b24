import unittest

from pen import clamp, dashes, is_even


class ClampTests(unittest.TestCase):
    def test_within(self):
        self.assertEqual(clamp(5, 0, 9), 5)

    def test_below(self):
        self.assertEqual(clamp(-1, 0, 9), 0)

    def test_above(self):
        self.assertEqual(clamp(10, 0, 9), 9)


class DashTests(unittest.TestCase):
    def test_one(self):
        self.assertEqual(dashes(2), [(0, 2)])

    def test_many(self):
        self.assertEqual(dashes(9, 2, 1), [(0, 2), (3, 5), (6, 8)])

    def test_cut(self):
        self.assertEqual(dashes(5), [(0, 3), (4, 5)])

    def test_none(self):
        self.assertEqual(dashes(0), [])


class EvenTests(unittest.TestCase):
    def test_even(self):
        self.assertTrue(is_even(4))

    def test_odd(self):
        """Counts such as three are not."""
        self.assertFalse(is_even(3))

    def test_zero(self):
        self.assertTrue(is_even(0))
