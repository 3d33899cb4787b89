package cpus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Set is a set of CPU numbers, ascending and without duplicates. The zero value is empty.
type Set []int

// maxCPU bounds the numbers in a list, far above what the kernel supports.
const maxCPU = 1 << 16

// NewSet returns the set of some numbers.
func NewSet(list ...int) Set {
	s := slices.Clone(list)
	slices.Sort(s)
	return slices.Compact(s)
}

// ParseSet parses the kernel's list format, such as 0-3,8. Empty text is the empty set.
func ParseSet(text string) (Set, error) {
	var list []int
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to > maxCPU {
			return nil, fmt.Errorf("%q is not a list of CPUs, such as 0-3,8", text)
		}
		for cpu := from; cpu <= to; cpu++ {
			list = append(list, cpu)
		}
	}
	return NewSet(list...), nil
}

// String is the kernel's list format.
func (s Set) String() string {
	var parts []string
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if part := strconv.Itoa(s[i]); i == j {
			parts = append(parts, part)
		} else {
			parts = append(parts, part+"-"+strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// MarshalText is the kernel's list format, and UnmarshalText parses it.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the kernel's list format.
func (s *Set) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSet(string(text))
	return err
}

// Contains reports whether the set has a CPU.
func (s Set) Contains(cpu int) bool {
	_, found := slices.BinarySearch(s, cpu)
	return found
}

// Union returns the CPUs that are in any of the sets.
func (s Set) Union(o Set) Set { return NewSet(slices.Concat(s, o)...) }

// Minus returns the CPUs that are not in the other set.
func (s Set) Minus(o Set) Set {
	return slices.DeleteFunc(slices.Clone(s), o.Contains)
}

// Intersect returns the CPUs that are in both sets.
func (s Set) Intersect(o Set) Set {
	return slices.DeleteFunc(slices.Clone(s), func(cpu int) bool { return !o.Contains(cpu) })
}
