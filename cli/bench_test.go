package cli

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
)

// BenchmarkGetPods measures get pods with 500 pods that have not changed since the last
// request.
func BenchmarkGetPods(b *testing.B) {
	var pods []v1.Pod
	for i := range 500 {
		p := *fullPod()
		p.Name = fmt.Sprintf("web%d-n1", i)
		pods = append(pods, p)
	}
	d := newFakeDaemon(b, pods...).start()
	b.ResetTimer()
	for b.Loop() {
		root := &cobra.Command{Use: "podstead", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(Commands(Version{})...)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs([]string{"get", "pods", "--api-socket", d.socket})
		if err := root.ExecuteContext(b.Context()); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 501 {
			b.Fatalf("%v\n%s", err, out.String())
		}
	}
}
