#!/bin/sh
# Stands for any command of a machine; does nothing but write down that it was started and how.
{ printf '%s' "${0##*/}"; for word in "$@"; do printf '\037%s' "$word"; done; printf '\n'; } >> "${0%/*}/started.log"
exit 1
