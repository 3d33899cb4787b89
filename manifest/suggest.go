package manifest

import (
	"slices"
	"strings"
)

// maxNamedLength is that of the longest name worth comparing, in bytes.
const maxNamedLength = 80

// NearestName is the name that was most likely meant; empty if none is near.
func NearestName(name string, valid []string) string {
	if len(name) > maxNamedLength {
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
	// A third of the letters wrong is still a slip; of a short word, one.
	if best == "" || bestDistance > max(1, min(len(name), len(best))/3) {
		return ""
	}
	return best
}

// editDistance counts the letters that are missing, extra, wrong or swapped
// with their neighbour.
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
