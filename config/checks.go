package config

import (
	"cmp"
	"net"
)

// between is a check of a value in a range. The text follows the value.
func between[T cmp.Ordered](v *T, low, high T, text string) func(*setting) {
	return func(s *setting) {
		if *v < low || *v > high {
			s.fail("=%v: %s", *v, text)
		}
	}
}

// atLeast is a check of a value with a minimum. The text follows the value.
func atLeast[T cmp.Ordered](v *T, low T, text string) func(*setting) {
	return func(s *setting) {
		if *v < low {
			s.fail("=%v: %s", *v, text)
		}
	}
}

// isIP is a check of an IP address.
func isIP(v *string) func(*setting) {
	return func(s *setting) {
		if net.ParseIP(*v) == nil {
			s.fail("=%q: must be an IP address", *v)
		}
	}
}

// isPort is a check of the number of a port.
func isPort(v *int) func(*setting) { return between(v, 0, maxPort, "must be a port, or 0 for none") }

const maxPort = 65535

// parsed is a check of a value that a function parses.
func parsed[From, To any](from *From, to *To, parse func(From) (To, error)) func(*setting) {
	return func(s *setting) {
		v, err := parse(*from)
		if err != nil {
			s.fail(": %w", err)
			return
		}
		*to = v
	}
}
