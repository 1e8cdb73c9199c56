"""`python -m nsysconv`."""

from nsysconv.cli import main

main()
