package options

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// Certificates say how the node comes to those that a cluster signs.
type Certificates struct {
	// Bootstrap is the kubeconfig to ask for the first one with; empty for none.
	Bootstrap string
	// Folder keeps them.
	Folder string
	// Rotate asks for another client certificate in time, RotateServing for one
	// for the port.
	Rotate, RotateServing bool
}

func (c *Certificates) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Bootstrap, "bootstrap-kubeconfig", "", "kubeconfig `file` to ask for this node's certificate with, while there is no --kubeconfig or its certificate has ended; --kubeconfig is written then")
	f.StringVar(&c.Folder, "cert-dir", "", "`folder` of the certificates that the cluster signs (default: pki below --root-dir)")
	f.BoolVar(&c.Rotate, "rotate-certificates", true, "ask the cluster for another client certificate before the present one ends")
	f.BoolVar(&c.RotateServing, "rotate-server-certificates", false, "ask the cluster for the serving certificate of --port, and for another one in time")
}

// merge takes from the file what no flag says.
func (c *Certificates) merge(from *kubeletconfig.Remote, f *pflag.FlagSet) {
	take(f, "rotate-certificates", from.RotateCertificates, &c.Rotate)
	take(f, "rotate-server-certificates", from.ServerTLSBootstrap, &c.RotateServing)
}

// check judges the settings of a node with that kubeconfig.
func (c *Certificates) check(kubeconfig string, served *Remote, root string) error {
	var errs []error
	if c.Folder == "" {
		c.Folder = filepath.Join(root, "pki")
	}
	for _, path := range []*string{&c.Folder, &c.Bootstrap} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("cannot make %q absolute: %w", *path, err)
		}
		*path = abs
	}
	switch _, err := os.Stat(kubeconfig); {
	case kubeconfig == "" && c.Bootstrap != "":
		errs = append(errs, errors.New("--bootstrap-kubeconfig: needs --kubeconfig, the file that is written once the cluster has signed a certificate"))
	case kubeconfig == "" || err == nil:
	case !errors.Is(err, fs.ErrNotExist) || c.Bootstrap == "":
		errs = append(errs, fmt.Errorf("--kubeconfig: %w; leave the flag out to run without a cluster, or give a --bootstrap-kubeconfig", err))
	default:
		if _, err := os.Stat(c.Bootstrap); err != nil {
			errs = append(errs, fmt.Errorf("--bootstrap-kubeconfig: %w; it is needed as long as there is no --kubeconfig %s", err, kubeconfig))
		}
	}
	if c.RotateServing && served.CertFile != "" {
		errs = append(errs, errors.New("--rotate-server-certificates (serverTLSBootstrap) and --tls-cert-file (tlsCertFile) are two serving certificates; take one of them out"))
	}
	return errors.Join(errs...)
}
