"""Tables for the eye show what is in them, whatever it looks like."""

from deadletter.cli.common import print_table


def test_no_value_is_read_as_markup(capsys):
    odd = ["orders[/eu]", "[error] card refused", ":x:", "[bold]a[/bold]"]
    print_table(odd, [odd], "[red]Dead letters", "see [docs]", right=odd[:1], whole=odd)
    told = capsys.readouterr().out
    assert all(told.count(value) == 2 for value in odd)
    assert "[red]Dead letters" in told and "see [docs]" in told
