package ipam

import "time"

// ResultsDirectory is where the runtime's CNI library keeps the result of each network that a
// sandbox was added to.
const ResultsDirectory = "/var/lib/cni/results"

// RemoveEmptyResults removes the files in dir that are empty and were written before boot, and
// returns their paths. A runtime cannot parse an empty result, so that it never stops or removes
// the sandbox; without a result it removes the network of the sandbox by the configuration. A
// directory that does not exist has none.
func RemoveEmptyResults(dir string, boot time.Time) (removed []string, err error) {
	files, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	return removeEmpty(dir, files, boot, func(string) bool { return true })
}
