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

// Memory is the file that keeps the endpoint of the runtime in which the pods
// live. A runtime that is merely down must not make the next start choose
// another one, in which every pod would be started a second time.
type EndpointFile struct{ path string }

// NewMemory keeps the endpoint under the daemon's root folder.
func NewEndpointFile(root string) EndpointFile {
	return EndpointFile{path: filepath.Join(root, "runtime-endpoint")}
}

// Load is the endpoint in use so far, empty before the first choice.
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

// Save remembers the endpoint.
func (m EndpointFile) Save(endpoint string) error {
	return replaceFile(m.path, []byte(endpoint+"\n"), 0o600)
}

// Choose is the endpoint to use when none is given: the remembered one, else
// the first usual socket that answers, else the private one.
func Choose(ctx context.Context, remembered string, sockets []string, private string) string {
	if remembered != "" {
		return remembered
	}
	if found, ok := Find(ctx, sockets); ok {
		return found
	}
	return private
}
