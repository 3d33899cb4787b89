package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// durationValue is a flag with a duration, in Go's format or with days: 90s, 1h30m, 7d, 1d12h.
type durationValue time.Duration

// durationVar defines a flag with a duration that may have days.
func durationVar(f *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	f.Var((*durationValue)(p), name, usage)
}

// String returns the duration.
func (d *durationValue) String() string { return time.Duration(*d).String() }

// Type is the type in help texts and messages.
func (d *durationValue) Type() string { return "duration" }

// Set parses a duration.
func (d *durationValue) Set(text string) error {
	parsed, err := parseDuration(text)
	*d = durationValue(parsed)
	return err
}

// maxDays keeps a number of days within a time.Duration.
const maxDays = 36500

// parseDuration parses a duration that may begin with a number of days.
func parseDuration(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > maxDays {
		return 0, errors.New("invalid number of days")
	}
	total := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return total, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 {
		return 0, errors.New("invalid duration after the days")
	}
	return total + more, nil
}
