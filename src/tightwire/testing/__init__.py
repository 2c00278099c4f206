"""The laws, importable: every codec, memory, exchange, schedule, rule, split, kernel and recipe goes through them.

A part of your own is tested by the same suites as ours:

    from tightwire.testing import codecs
    def test_mine() -> None:
        codecs.check_all(my_codec())

and, once an entry point of its axis names it (``tightwire.codecs = mine = my_package:my_codec``), it is found by
`tightwire.testing.found` together with the built-in ones.
"""
