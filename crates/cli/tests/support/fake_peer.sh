#!/bin/sh
# In place of Python in the tests of `compare`: does what the variable FAKE_PEER says. Its arguments
# are the script, the folder of values, the model, and `optimised` or `plain`.
eval "$FAKE_PEER"
