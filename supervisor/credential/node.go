package credential

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/podstead/podstead/cri"
)

// Node holds the credentials that all pods of the node may use. The zero value has
// none.
type Node struct {
	// Files are docker's config files; only the first readable one is used.
	Files []string
	// Providers are the plugins; may be nil.
	Providers *Providers
}

// kubeletRoot is the root directory of a kubelet on this host.
const kubeletRoot = "/var/lib/kubelet"

// DefaultFiles returns the files in the kubelet's order, with the daemon's root directory
// in place of the kubelet's. The kubelet also searches its working directory.
func DefaultFiles(root, home string) []string {
	if home == "" {
		home = "/root" // services have no HOME
	}
	return []string{
		filepath.Join(root, "config.json"),
		filepath.Join(kubeletRoot, "config.json"),
		filepath.Join(home, ".docker", "config.json"),
		"/.docker/config.json",
		filepath.Join(root, dockercfg),
		filepath.Join(kubeletRoot, dockercfg),
		filepath.Join(home, dockercfg),
		"/" + dockercfg,
	}
}

const dockercfg = ".dockercfg"

// Lookup returns the credentials for an image, those of a file before those of plugins.
// With an error about a file or plugin, it also returns what it found elsewhere.
func (n Node) Lookup(ctx context.Context, image Image) ([]cri.Credential, error) {
	keyring, err := n.keyring()
	errs := []error{err}
	found := keyring.Lookup(image)
	if n.Providers != nil {
		more, err := n.Providers.lookup(ctx, image)
		found, errs = append(found, more...), append(errs, err)
	}
	return found, errors.Join(errs...)
}

// keyring returns the keyring of the first readable file.
func (n Node) keyring() (Keyring, error) {
	var errs []error
	for _, name := range n.Files {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		parse := ParseDockerConfig
		if filepath.Base(name) == dockercfg {
			parse = ParseDockercfg
		}
		keyring, err := parse(text, name)
		if errors.Is(err, errNoJSON) {
			errs = append(errs, err)
			continue
		}
		return keyring, errors.Join(append(errs, err)...)
	}
	return Keyring{}, errors.Join(errs...)
}

// errNotDir is the error for a path below a file.
var errNotDir error = syscall.ENOTDIR
