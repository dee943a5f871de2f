#!/bin/sh
# Stands for any command of a machine; does nothing but write down that it was started and how.
line="${0##*/}"
for word in "$@"; do line="$line$(printf '\037')$word"; done
printf '%s\n' "$line" >> "${0%/*}/started.log"
exit 1
