. ./lib/duration.sh

check "seconds stay" 45 "$(duration_seconds 45s)"
check "a minute has 60 seconds" 120 "$(duration_seconds 2m)"
check "an hour has 3600 seconds" 3600 "$(duration_seconds 1h)"
check "units add up" 5415 "$(duration_seconds 1h30m15s)"
check "a number needs a unit" invalid "$(duration_seconds 90)"
