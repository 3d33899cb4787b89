package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// exitTrouble is diff's code for what went wrong, as diff(1) has it: 1 says
// that there is a difference.
const exitTrouble = 2

func diffCommand() *cobra.Command {
	var socket, mode string
	cmd := &cobra.Command{
		Use:   "diff FILE|DIR|-...",
		Short: "Show what manifests would change of what runs",
		Long: `Show what manifests would change of what runs, in the unified form. Both sides
have every default filled in, so that only what would really change is shown.
Of Secrets it is shown which keys change, not what is in them.

The exit code is 0 without a difference, 1 with one, 2 for a faulty manifest or
another failure, 3 if no daemon answers.`,
		Example: `  podstead diff web.yaml
  helm template x | podstead diff -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			m, err := manifest.ParseMode(mode)
			if err != nil {
				return usageError(fmt.Errorf("--manifest-validation: %w", err))
			}
			err = diff(cmd, newClient(socket), m, paths)
			if Code(err) == ExitFailed && !Silent(err) {
				return &ExitError{Code: exitTrouble, Err: err}
			}
			return err
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVar(&mode, "manifest-validation", string(manifest.ModeStrict), "what becomes of unknown and duplicate fields: strict, warn or ignore")
	return cmd
}

func diff(cmd *cobra.Command, c *client, mode manifest.Mode, paths []string) error {
	node, err := nodeName(cmd.Context(), c)
	if err != nil {
		return err
	}
	d := differ{cmd: cmd, client: c, loader: manifest.NewLoader(node, mode)}
	for _, path := range paths {
		if err := d.path(path); err != nil {
			return err
		}
	}
	switch {
	case d.faults.Fatal():
		return &ExitError{Code: exitTrouble}
	case d.compared == 0:
		return errors.New("no manifest there: a folder's manifests end in .yaml, .yml or .json")
	case d.different:
		return &ExitError{Code: ExitFailed}
	}
	return nil
}

// differ is one call of diff.
type differ struct {
	cmd       *cobra.Command
	client    *client
	loader    *manifest.Loader
	faults    manifest.Faults
	compared  int
	different bool
}

func (d *differ) path(path string) error {
	if path == "-" {
		data, err := readLimited(d.cmd.InOrStdin())
		if err != nil {
			return fmt.Errorf("cannot read standard input: %w", err)
		}
		return d.unit(path, data)
	}
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(path, err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = manifestsIn(path); err != nil {
			return err
		}
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		data, err := readLimited(f)
		_ = f.Close() // it was only read
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", file, err)
		}
		if err := d.unit(file, data); err != nil {
			return err
		}
	}
	return nil
}

// manifestsIn are the files that the daemon would read in a folder.
func manifestsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		full := filepath.Join(dir, e.Name())
		if info, err := os.Stat(full); err == nil && !info.IsDir() && manifest.IsManifestFile(e.Name()) {
			files = append(files, full)
		}
	}
	return files, nil
}

func (d *differ) unit(name string, data []byte) error {
	load := func(source manifest.Source) (manifest.Content, manifest.Faults) {
		return d.loader.Load(manifest.LoadRequest{Source: source, Unit: name, Data: data})
	}
	content, faults := load(manifest.SourceFile)
	d.faults = append(d.faults, faults...)
	for _, f := range faults {
		if f.Warning {
			d.cmd.PrintErrln("warning: " + f.Error())
		} else {
			d.cmd.PrintErrln(f.Error())
		}
	}
	d.compared++
	for i, document := range content.Documents {
		running, err := d.running(podKind(), document.Pod.Namespace, document.Pod.Name)
		if err != nil {
			return err
		}
		wanted := document.Pod
		if running != nil && running.Annotations[podinfo.AnnotationSource] == string(manifest.SourceHTTP) {
			// Pods from a URL have other defaults.
			again, _ := load(manifest.SourceHTTP)
			wanted = again.Documents[i].Pod
		}
		if err := d.pod(name, running, wanted); err != nil {
			return err
		}
	}
	for i := range content.Objects {
		if err := d.object(name, &content.Objects[i]); err != nil {
			return err
		}
	}
	return nil
}

// running is the object of that name, nil if there is none.
func (d *differ) running(k *kind, namespace, name string) (*object, error) {
	l, err := query{kind: k, namespace: namespace, fields: "metadata.name=" + name}.list(d.cmd.Context(), d.client)
	if err != nil || len(l.objects) == 0 {
		return nil, err
	}
	return l.objects[0], nil
}

func (d *differ) pod(file string, running *object, wanted *v1.Pod) error {
	from, name := "", wanted.Namespace+"/"+manifest.BaseName(wanted)
	if running != nil {
		p, err := podOf(running)
		if err != nil {
			return err
		}
		if from, err = podText(p); err != nil {
			return err
		}
	}
	to, err := podText(wanted)
	if err != nil {
		return err
	}
	return d.show(from, to, "Pod "+name, file)
}

// podText is what a manifest can say of a pod.
func podText(p *v1.Pod) (string, error) {
	own := v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: p.Spec}
	own.Name, own.Namespace, own.Labels = manifest.BaseName(p), p.Namespace, p.Labels
	for key, value := range p.Annotations {
		switch key {
		case podinfo.AnnotationSource, podinfo.AnnotationHash, podinfo.AnnotationSeen, manifest.AnnotationTemplate:
			continue
		}
		if own.Annotations == nil {
			own.Annotations = map[string]string{}
		}
		own.Annotations[key] = value
	}
	return yamlWithout(own, "status")
}

// yamlWithout is an object as YAML without some of its fields.
func yamlWithout(v any, fields ...string) (string, error) {
	text, err := yaml.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("cannot print: %w", err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return "", fmt.Errorf("cannot print: %w", err)
	}
	for _, field := range fields {
		delete(tree, field)
	}
	text, err = yaml.Marshal(tree)
	return string(text), err
}

// object compares what stands beside pods, as far as the Kubernetes API has it.
func (d *differ) object(file string, wanted *manifest.Object) error {
	ref := wanted.Ref()
	var k *kind
	switch {
	case wanted.ConfigMap != nil:
		k = mustKind("configmaps")
	case wanted.Secret != nil:
		k = mustKind("secrets")
	default:
		return nil
	}
	running, err := d.running(k, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	var from, to string
	if wanted.ConfigMap != nil {
		from, to, err = configMapTexts(running, wanted.ConfigMap)
	} else {
		from, to, err = secretTexts(running, wanted.Secret)
	}
	if err != nil {
		return err
	}
	return d.show(from, to, ref.String(), file)
}

func configMapTexts(running *object, wanted *v1.ConfigMap) (from, to string, err error) {
	plain := func(m *v1.ConfigMap) (string, error) {
		own := v1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: m.Data, BinaryData: m.BinaryData}
		own.Name, own.Namespace = m.Name, m.Namespace
		return yamlWithout(own)
	}
	if running != nil {
		var m v1.ConfigMap
		if err := running.into(&m); err != nil {
			return "", "", fmt.Errorf("cannot read a ConfigMap that podstead sent: %w", err)
		}
		if from, err = plain(&m); err != nil {
			return "", "", err
		}
	}
	to, err = plain(wanted)
	return from, to, err
}

// secretTexts tell which keys are there and which differ.
func secretTexts(running *object, wanted *v1.Secret) (from, to string, err error) {
	before := v1.Secret{}
	if running != nil {
		if err := running.into(&before); err != nil {
			return "", "", fmt.Errorf("cannot read a Secret that podstead sent: %w", err)
		}
	}
	veiled := func(s, other *v1.Secret, changed string) (string, error) {
		data := map[string]string{}
		for key, value := range s.Data {
			data[key] = "***"
			if old, there := other.Data[key]; there && string(old) != string(value) {
				data[key] = changed
			}
		}
		return yamlWithout(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": s.Name, "namespace": s.Namespace}, "type": s.Type, "data": data})
	}
	if running != nil {
		if from, err = veiled(&before, wanted, "*** (before)"); err != nil {
			return "", "", err
		}
	}
	to, err = veiled(wanted, &before, "*** (after)")
	return from, to, err
}

func (d *differ) show(from, to, name, file string) error {
	text := unified(from, to, name+" as it runs", name+" in "+file)
	if text == "" {
		return nil
	}
	d.different = true
	out := d.cmd.OutOrStdout()
	s := screenOf(out)
	for _, line := range lines(text) {
		h := hue("")
		switch line[0] {
		case '+':
			h = hueGood
		case '-':
			h = hueBad
		}
		if _, err := fmt.Fprintln(out, s.paint(visible(line), h)); err != nil {
			return err
		}
	}
	return nil
}
