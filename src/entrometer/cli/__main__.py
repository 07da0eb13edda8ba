"""`python -m entrometer.cli`, for where the script is not on the path."""

import sys

from entrometer.cli import main

sys.exit(main())
