package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
)

// access is what the daemon gives a client that cannot use the socket.
type access struct {
	Node                 string    `json:"node"`
	User                 string    `json:"user"`
	Server               string    `json:"server"`
	CertificateAuthority string    `json:"certificateAuthority"`
	ClientCertificate    string    `json:"clientCertificate"`
	ClientKey            string    `json:"clientKey"`
	Expires              time.Time `json:"expires"`
}

func kubeconfigCommand() *cobra.Command {
	var socket, role, output string
	var duration time.Duration
	var revoke bool
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Make a kubeconfig, with which kubectl and client-go can ask podstead",
		Long: `Make a kubeconfig, with which kubectl and client-go can ask podstead.

The daemon answers them over TLS on 127.0.0.1 from then on, restarts included.
The kubeconfig proves its user by a client certificate: keep it to yourself.

Roles: read sees pods, events, logs and numbers; exec gets into containers as
well; admin may do everything that the owner of the socket may.`,
		Example: `  podstead kubeconfig > ~/.kube/podstead && kubectl --kubeconfig ~/.kube/podstead get pods -A
  podstead kubeconfig --output ~/.kube/config
  podstead kubeconfig --role read --duration 8760h --output monitoring.kubeconfig
  podstead kubeconfig --revoke`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := client.New(socket)
			if revoke {
				return c.Delete(cmd.Context(), "/podstead/v1/kubeconfig")
			}
			q := url.Values{"role": {role}, "duration": {duration.String()}}
			var a access
			if err := c.Post(cmd.Context(), "/podstead/v1/kubeconfig?"+q.Encode(), &a); err != nil {
				return err
			}
			if output == "" || output == "-" {
				data, err := yaml.Marshal(a.merge(nil))
				if err == nil {
					_, err = cmd.OutOrStdout().Write(data)
				}
				return err
			}
			current, err := a.mergeInto(output)
			if err != nil {
				return err
			}
			cmd.PrintErrf("%s has the context %s, good until %s\n", output, a.context(), a.Expires.Local().Format(time.DateTime))
			if current != a.context() {
				cmd.PrintErrf("its current context stays %s; use kubectl --context %s\n", current, a.context())
			}
			return nil
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVar(&role, "role", "admin", "what its user may do: read, exec or admin")
	cmd.Flags().DurationVar(&duration, "duration", 30*24*time.Hour, "`time` for which it is good")
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write it to, into what is there (default: standard output)")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "end every kubeconfig that was made so far, and close their port")
	return cmd
}

func (a *access) context() string { return "podstead-" + a.Node }

// merge puts a cluster, a user and a context of one name into a kubeconfig, in
// the place of those that had it. The rest, the current context too, stays.
func (a *access) merge(into map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{"apiVersion": "v1", "kind": "Config", "preferences": map[string]any{}}
	}
	name, encode := a.context(), func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for list, entry := range map[string]map[string]any{
		"clusters": {"cluster": map[string]any{"server": a.Server, "certificate-authority-data": encode(a.CertificateAuthority)}},
		"users":    {"user": map[string]any{"client-certificate-data": encode(a.ClientCertificate), "client-key-data": encode(a.ClientKey)}},
		"contexts": {"context": map[string]any{"cluster": name, "user": name}},
	} {
		entry["name"] = name
		old, _ := into[list].([]any)
		all := make([]any, 0, len(old)+1)
		for _, e := range old {
			if m, ok := e.(map[string]any); !ok || m["name"] != name {
				all = append(all, e)
			}
		}
		into[list] = append(all, entry)
	}
	if current, _ := into["current-context"].(string); current == "" {
		into["current-context"] = name
	}
	return into
}

// mergeInto merges into a file and returns the current context there.
func (a *access) mergeInto(path string) (current string, err error) {
	var config map[string]any
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := yaml.Unmarshal(data, &config); err != nil {
			return "", fmt.Errorf("%s is no kubeconfig, and stays as it is: %w", path, err)
		}
		if len(config) > 0 && config["kind"] != "Config" {
			return "", fmt.Errorf("%s is no kubeconfig, and stays as it is: its kind is %v, not Config", path, config["kind"])
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	if len(config) == 0 {
		config = nil
	}
	config = a.merge(config)
	if data, err = yaml.Marshal(config); err != nil {
		return "", err
	}
	current, _ = config["current-context"].(string)
	return current, replacePrivate(path, data)
}

// replacePrivate replaces a file in one step; only its owner can read it.
func replacePrivate(path string, data []byte) error {
	// A link stays one: what it leads to is replaced.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot write the kubeconfig: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-")
	if err != nil {
		return fmt.Errorf("cannot write the kubeconfig: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write the kubeconfig: %w", err)
	}
	return nil
}
