"""The command line: flags in, one call of the library, a rendered answer out.

**What is loaded when.** `--help` loads no pyarrow, numpy, SQLAlchemy or rich, and a command only what it
needs. There is one way for that, in the whole package: a module imports at its top what all of its
functions need; a function imports at its own top what is large and what only this function needs. So
each function of `app` imports the module that does its work, and each function of `commands` what of the
library is not in `nsysconv.api`. Names of `nsysconv` and `nsysconv.api` are loaded on first use, too: by
`__getattr__` there, with one table of the modules they are in.
"""
