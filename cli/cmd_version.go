package cli

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cli/output"
	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/kubeversion"
)

// Version describes the program, as version -o json prints it.
type Version struct {
	// Version is the release, such as v0.3.0, or what git describe prints between releases.
	Version string `json:"version"`
	// Commit and Date are the commit that it was built from, and when that was made, in RFC
	// 3339; both are empty if the program was built outside of a git repository.
	Commit string `json:"commit,omitempty"`
	Date   string `json:"date,omitempty"`
	// GoVersion is the version of the Go tools, and Platform what they compiled for, such as
	// linux/arm64.
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
	// KubernetesVersion is the release of Kubernetes that podstead follows, CRIVersion the
	// version of the Container Runtime Interface that it speaks.
	KubernetesVersion string `json:"kubernetesVersion"`
	CRIVersion        string `json:"criVersion"`
}

// String returns the line that version and --version print, without the name of the program.
func (v Version) String() string { return v.Version + " (Kubernetes " + v.KubernetesVersion + ")" }

// criVersion is the version of the Container Runtime Interface that package cri speaks.
const criVersion = "v1"

// ProgramVersion returns what is known about this program.
func ProgramVersion() Version {
	commit, date := buildinfo.Commit()
	return Version{
		Version: buildinfo.Version(), Commit: commit, Date: date,
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		KubernetesVersion: kubeversion.Release, CRIVersion: criVersion,
	}
}

func versionCommand(version Version) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of podstead",
		Long: `Print the version of podstead. -o json adds the commit and its date, the version of Go,
the platform, and the versions of the CRI and of the Kubernetes API.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "json", "yaml"}, format) {
				return usageError(fmt.Errorf("--output %q: must be json or yaml", format))
			}
			if format != "" {
				return output.PrintEncoded(cmd.OutOrStdout(), version, format)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "podstead version", version)
			return err
		},
	}
	cmd.Flags().String("api-socket", DefaultSocket, "has no effect: version does not contact the daemon")
	cmd.Flags().StringVarP(&format, "output", "o", "", "output format: json or yaml")
	return cmd
}
