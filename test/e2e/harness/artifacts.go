package harness

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// ArtifactServer is a registry on loopback that requires a login, and that can stop and start
// again.
type ArtifactServer struct {
	T        *testing.T
	Registry image.Registry
	Login    image.Login
	Addr     string
	server   *http.Server
	// config is docker's configuration with the login.
	Config string
}

// Start serves the artifacts at the address of the server, also after stop.
func (s *ArtifactServer) Start() {
	s.T.Helper()
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		s.T.Fatal(err)
	}
	s.server = &http.Server{Handler: s.Login.Require(&s.Registry)}
	go func() { _ = s.server.Serve(l) }()
}

// Stop closes the server and its connections.
func (s *ArtifactServer) Stop() { _ = s.server.Close() }

// OrasProgram returns the path of oras.
func OrasProgram() string {
	return filepath.Join(testbed.Cache(), "oras-"+testbed.Version("ORAS_VERSION"), "oras")
}

// Push pushes files with oras; a name that ends in a slash is a directory.
func (s *ArtifactServer) Push(ref string, files map[string]string) {
	s.T.Helper()
	dir := s.T.TempDir()
	var names []string
	seen := map[string]bool{}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			s.T.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			s.T.Fatal(err)
		}
		if first, _, nested := strings.Cut(name, "/"); nested {
			name = first + "/"
		}
		if !seen[name] {
			names = append(names, name)
		}
		seen[name] = true
	}
	login := filepath.Join(s.T.TempDir(), "config.json")
	if err := os.WriteFile(login, []byte(s.Config), 0o600); err != nil {
		s.T.Fatal(err)
	}
	cmd := exec.CommandContext(s.T.Context(), OrasProgram(),
		append([]string{"push", "--plain-http", "--registry-config", login, ref}, names...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		s.T.Fatalf("oras push %v: %v\n%s", names, err, out)
	}
}

// PushArchive pushes an archive of files with the media types of flux push artifact.
func (s *ArtifactServer) PushArchive(ref string, files map[string]string) {
	s.T.Helper()
	var list []image.File
	for name, content := range files {
		list = append(list, image.File{Name: name, Data: []byte(content), Mode: 0o644})
	}
	archive, err := image.Tar(list)
	if err != nil {
		s.T.Fatal(err)
	}
	zipped, err := image.GzipLayer(archive)
	if err != nil {
		s.T.Fatal(err)
	}
	if _, err := s.Registry.PushArtifact(ref, image.Artifact{
		Config: image.Blob("application/vnd.cncf.flux.config.v1+json", "", []byte("{}")),
		Layers: []image.Layer{image.Blob("application/vnd.cncf.flux.content.v1.tar+gzip", "", zipped.Data)},
	}); err != nil {
		s.T.Fatal(err)
	}
}
