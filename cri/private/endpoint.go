package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/internal/statefile"
)

// EndpointFile records the endpoint of the runtime that runs the pods. A runtime
// that is only down must not make the next start choose another one, in which
// every pod would be started a second time.
type EndpointFile struct {
	path string
	disk statefile.Disk
}

// endpointFormat is the file of the endpoint: one line.
var endpointFormat = statefile.Format[string]{
	Name: "runtime-endpoint", Limit: 4 << 10, Damaged: statefile.Refuse, Repeat: true,
	Encode: func(endpoint string) ([]byte, error) { return []byte(endpoint + "\n"), nil },
	Decode: func(text []byte) (string, error) {
		endpoint := strings.TrimSpace(string(text))
		if !strings.HasPrefix(strings.TrimPrefix(endpoint, "unix://"), "/") || strings.ContainsAny(endpoint, "\n\x00") {
			return "", fmt.Errorf("it contains %q, which is not an endpoint; run once: "+
				"podstead run --container-runtime-endpoint=ENDPOINT, with that of the runtime on which the pods run", endpoint)
		}
		return endpoint, nil
	},
}

// NewEndpointFile stores the endpoint in the daemon's root directory.
func NewEndpointFile(root string, disk statefile.Disk) EndpointFile {
	return EndpointFile{filepath.Join(root, endpointFormat.Name), disk}
}

// Load returns the recorded endpoint, empty before the first choice.
func (m EndpointFile) Load() (string, error) {
	endpoint, err := endpointFormat.File(m.path, m.disk).Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("failed to read the recorded runtime endpoint: %w", err)
	}
	return endpoint, nil
}

// Save records the endpoint, also instead of a file that cannot be used. A write that failed is repeated.
func (m EndpointFile) Save(endpoint string) error {
	return endpointFormat.File(m.path, m.disk).Save(endpoint)
}

// Choose returns the endpoint to use when none is given: the recorded one, else
// the first usual socket that responses, else the private one.
func Choose(ctx context.Context, remembered string, sockets []string, private string) string {
	if remembered != "" {
		return remembered
	}
	if found, ok := Find(ctx, sockets); ok {
		return found
	}
	return private
}
