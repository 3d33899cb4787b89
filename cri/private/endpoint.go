package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// EndpointFile records the endpoint of the runtime that runs the pods. A runtime
// that is only down must not make the next start choose another one, in which
// every pod would be started a second time.
type EndpointFile struct{ path string }

// NewEndpointFile stores the endpoint in the daemon's root directory.
func NewEndpointFile(root string) EndpointFile {
	return EndpointFile{path: filepath.Join(root, "runtime-endpoint")}
}

// Path returns the path of the file.
func (m EndpointFile) Path() string { return m.path }

// Load returns the recorded endpoint, empty before the first choice.
func (m EndpointFile) Load() (string, error) {
	data, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("failed to read the recorded runtime endpoint: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Save records the endpoint.
func (m EndpointFile) Save(endpoint string) error {
	return replaceFile(m.path, []byte(endpoint+"\n"), 0o600)
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
