package suggest

import (
	"slices"
	"strings"
)

// maxLength is the length of the longest name worth comparing, in bytes.
const maxLength = 80

// Nearest returns the valid name that was most likely meant, ignoring case. It
// is empty if no name is close.
func Nearest(name string, valid []string) string {
	if len(name) > maxLength {
		return ""
	}
	best, bestDistance := "", 0
	lower := strings.ToLower(name)
	for _, candidate := range slices.Sorted(slices.Values(valid)) {
		distance := editDistance(lower, strings.ToLower(candidate))
		if best == "" || distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	// Up to a third of the letters may be wrong; one letter in a short word.
	if best == "" || bestDistance > max(1, min(len(name), len(best))/3) {
		return ""
	}
	return best
}

// editDistance returns how many letters are missing, extra, wrong or swapped
// with their neighbor.
func editDistance(a, b string) int {
	from, to := []rune(a), []rune(b)
	before := make([]int, len(to)+1)
	previous := make([]int, len(to)+1)
	current := make([]int, len(to)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range from {
		current[0] = i + 1
		for j := range to {
			cost := 1
			if from[i] == to[j] {
				cost = 0
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, previous[j]+cost)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				current[j+1] = min(current[j+1], before[j-1]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(to)]
}
