package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/podstead/podstead/cli/convert"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/quadlet"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/manifestfile"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/manifest"
)

// convertOptions are the flags of convert.
type convertOptions struct {
	from, namespace, output string
	profiles, envFiles      []string
	strict                  bool
}

func convertCommand() *cobra.Command {
	var o convertOptions
	cmd := &cobra.Command{
		Use:   "convert [FILE|DIR|-]...",
		Short: "Convert Compose files, Quadlet units and Deployments to manifests",
		Long: `Convert Compose files, Quadlet units, and Deployments, StatefulSets, DaemonSets and Jobs to
Pods and the objects that they need. The kind of the input is detected. Without an argument,
standard input is converted.

Standard output receives the manifests, which are valid as by podstead validate. Standard error
receives one line for each thing to know: file, line, field, and
  lost: what the pods will not do, and the remedy
  note: what they do in another way
  an error: what cannot be converted; there is no output then, and the exit code is 1.

With --strict there is no output either if anything is lost, and the exit code is 1.

Of a directory, the Compose file (compose.yaml, docker-compose.yml, and its override) is read,
or else the Quadlet units and manifests. Several Compose files are merged.`,
		Example: `  # Convert a Compose project and run it
  podstead convert compose.yaml | podstead apply -f -

  # Convert the units of Podman, one file for each pod
  podstead convert /etc/containers/systemd -o manifests/

  # Run the pods of a chart
  helm template my-release my-chart | podstead convert | podstead apply -f -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, paths []string) error { return runConvert(cmd, o, paths) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "",
		"write one file for each pod into this `directory`, instead of standard output")
	f.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of the pods and objects, where the input has none")
	f.StringVar(&o.from, "from", "", "the `kind` of the input: "+strings.Join(convert.Kinds, ", ")+" (default: detected)")
	f.StringSliceVar(&o.profiles, "profile", nil, "Compose `profile` to convert too; * is all")
	f.StringSliceVar(&o.envFiles, "env-file", nil, "`file` with the variables of Compose files, instead of .env")
	f.BoolVar(&o.strict, "strict", false, "fail if anything is lost")
	f.String("api-socket", DefaultSocket, "has no effect: convert does not contact the daemon")
	// The flag exists and has no completion yet.
	_ = cmd.RegisterFlagCompletionFunc("output",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		})
	return cmd
}

func runConvert(cmd *cobra.Command, o convertOptions, paths []string) error {
	if o.from != "" && !slices.Contains(convert.Kinds, o.from) {
		return usageError(fmt.Errorf("--from %q: must be one of %s", o.from, strings.Join(convert.Kinds, ", ")))
	}
	if len(paths) == 0 {
		if in, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
			return usageError(errors.New("nothing to convert; name files or directories, or pipe into the command"))
		}
		paths = []string{"-"}
	}
	var inputs []convert.Input
	for _, path := range paths {
		found, err := readInputs(cmd, path)
		if err != nil {
			return err
		}
		inputs = append(inputs, found...)
	}
	host, err := convertHost()
	if err != nil {
		return err
	}
	result := convert.Convert(inputs, convert.Options{
		From: convert.Kind(o.from), Namespace: o.namespace, Profiles: o.profiles, EnvFiles: o.envFiles, Host: host,
	})
	for _, e := range result.Report.Entries() {
		cmd.PrintErrln(terminal.Visible(e.String()))
	}
	return finishConvert(cmd, o, result)
}

// finishConvert prints or writes the result, unless it has errors.
func finishConvert(cmd *cobra.Command, o convertOptions, result convert.Result) error {
	lost := result.Report.Count(report.Lost)
	switch {
	case result.Report.Count(report.Error) > 0:
		return &ExitError{Code: ExitFailed}
	case o.strict && lost > 0:
		return fmt.Errorf("%s would be lost (--strict); nothing was written", terminal.Count(lost, "thing"))
	case len(result.Units) == 0:
		return errors.New("nothing to convert: no pod and no object for one was found")
	case o.output != "":
		return writeUnits(cmd, o.output, convert.Group(result.Units))
	}
	for i, u := range result.Units {
		text, err := convert.Text(u)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := cmd.OutOrStdout().Write(text); err != nil {
			return err
		}
	}
	return nil
}

// writeUnits writes one file for each unit. If one exists with other content, none is written.
func writeUnits(cmd *cobra.Command, dir string, units []podbuild.Unit) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	texts := map[string][]byte{}
	var paths []string
	for _, u := range units {
		text, err := convert.Text(u)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, u.Name+".yaml")
		if old, fault := manifest.ReadFile(path); fault == nil && string(old) != string(text) && texts[path] == nil {
			return fmt.Errorf("%s exists with other content; nothing was written: remove it, or name another directory with -o",
				path)
		}
		if texts[path] == nil {
			paths = append(paths, path)
		} else {
			text = append(append(texts[path], "---\n"...), text...)
		}
		texts[path] = text
	}
	for _, path := range paths {
		// A Secret may be among them.
		if err := (statefile.Disk{}).Replace(path, texts[path], 0o600, statefile.Atomic); err != nil {
			return err
		}
		cmd.PrintErrln(path + " written")
	}
	return nil
}

// readInputs reads the files of an argument.
func readInputs(cmd *cobra.Command, path string) ([]convert.Input, error) {
	var inputs []convert.Input
	add := func(file string, data []byte, fault *manifest.Fault) error {
		if fault != nil {
			return *fault
		}
		inputs = append(inputs, convert.Input{Name: file, Data: data})
		return nil
	}
	if !isDirectory(path) {
		err := manifestfile.Each(cmd.Context(), path, cmd.InOrStdin(), add)
		return inputs, err
	}
	files, err := filesToConvert(path)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no Compose file, no Quadlet unit and no manifest", path)
	}
	for _, file := range files {
		data, err := manifestfile.ReadFile(cmd.Context(), file)
		if err != nil {
			return nil, err
		}
		if err := add(file, data, nil); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// filesToConvert returns the Compose file of a directory and its override, or else its Quadlet
// units and manifests.
func filesToConvert(dir string) ([]string, error) {
	exists := func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	}
	for i, name := range convert.ComposeNames {
		if !exists(name) {
			continue
		}
		files := []string{filepath.Join(dir, name)}
		if override := convert.ComposeOverrides[i]; exists(override) {
			files = append(files, filepath.Join(dir, override))
		}
		return files, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	ofUnits := map[string]bool{} // manifests that are read through a .kube unit
	for _, e := range entries {
		name := e.Name()
		if !exists(name) || !convert.IsQuadlet(name) && !manifest.IsManifestFile(name) {
			continue
		}
		file := filepath.Join(dir, name)
		files = append(files, file)
		if filepath.Ext(name) == ".kube" {
			if data, fault := manifest.ReadFile(file); fault == nil {
				for _, used := range quadlet.Manifests(quadlet.File{Name: file, Data: data}) {
					ofUnits[filepath.Join(dir, filepath.Base(used))] = true
				}
			}
		}
	}
	return slices.DeleteFunc(files, func(file string) bool { return ofUnits[file] }), nil
}

// convertHost returns what a conversion may look up: files, and the environment.
func convertHost() (podbuild.Host, error) {
	dir, err := os.Getwd()
	if err != nil {
		return podbuild.Host{}, fmt.Errorf("failed to get the working directory: %w", err)
	}
	home, _ := os.UserHomeDir() // empty without one; then ~ is the root directory
	return podbuild.Host{
		Dir: dir, Home: home, LookupEnv: os.LookupEnv,
		ReadFile: func(path string) ([]byte, error) {
			data, fault := manifest.ReadFile(path)
			if fault != nil {
				return nil, errors.New(fault.Problem)
			}
			return data, nil
		},
		Mode: func(path string) (fs.FileMode, bool) {
			info, err := os.Stat(path)
			if err != nil {
				return 0, false
			}
			return info.Mode(), true
		},
	}, nil
}
