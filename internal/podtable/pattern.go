package podtable

import (
	"regexp"
	"sync"
)

// pattern returns a regular expression, which its first call compiles. The daemon needs most of
// them never, and each of its processes would keep them in memory.
type pattern func() *regexp.Regexp

// compile returns the pattern of an expression. The pattern panics if the expression is wrong.
func compile(expression string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
