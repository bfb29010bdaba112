. ./lib/semver.sh

check "the first number counts most" lt "$(semver_compare 1.9.9 2.0.0)"
check "numbers are compared as numbers" gt "$(semver_compare 1.10.0 1.9.0)"
check "the last number counts too" lt "$(semver_compare 1.2.3 1.2.4)"
check "and in the other direction" gt "$(semver_compare 1.2.10 1.2.9)"
check "equal versions are equal" eq "$(semver_compare 3.0.1 3.0.1)"
