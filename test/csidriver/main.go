// Command csidriver is a CSI driver for tests, with the services Identity, Node and Controller. A volume is a
// directory or a block device of the host, which is mounted by bind mounts. It is its own registrar, or that of another
// process.
//
// The test and the driver share a directory:
//
//	volumes/ID       the content of a volume, a directory or a block device; a volume that is missing is not found
//	fail/METHOD      the method fails with the code and the message in the file
//	leave/METHOD     the method reports success, and leaves what is mounted
//	hang/METHOD      the method does not respond while the file exists, and does nothing if the caller gives up
//	condition/ID     the volume is abnormal, with the message in the file
//	calls.jsonl      each call before it is served, with its request
//	without/CAPABILITY  the driver starts without a capability of the service Node, such as STAGE_UNSTAGE_VOLUME
//
// Inline volumes are directories in volumes while they are published.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	register "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	d := &driver{}
	flag.StringVar(&d.name, "name", "disk.example.com", "name of the driver")
	flag.StringVar(&d.dir, "dir", "/csi-data", "directory that the test shares")
	endpoint := flag.String("endpoint", "", "socket on which the driver serves")
	address := flag.String("csi-address", "", "socket of a driver for which this process is the registrar only")
	flag.StringVar(&d.endpoint, "kubelet-registration-path", "",
		"socket of the driver, by its path on the host; without, another process registers the driver")
	registry := flag.String("registry", "/registration", "directory in which drivers register")
	flag.Parse()
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if *address != "" {
		d.name = nameOf(*address)
	} else {
		d.makeDirectories()
		server := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
		csi.RegisterIdentityServer(server, d)
		csi.RegisterNodeServer(server, d)
		csi.RegisterControllerServer(server, d)
		if d.endpoint == "" {
			serve(server, *endpoint)
		}
		go serve(server, *endpoint)
	}
	registrar := grpc.NewServer()
	register.RegisterRegistrationServer(registrar, d)
	serve(registrar, filepath.Join(*registry, d.name+"-reg.sock"))
}

func (d *driver) makeDirectories() {
	for _, name := range []string{"volumes", "fail", "hang", "condition", "leave", "without"} {
		if err := os.MkdirAll(filepath.Join(d.dir, name), 0o755); err != nil {
			log.Fatal(err)
		}
	}
}

// nameOf asks a driver for its name, once it serves.
func nameOf(socket string) string {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(context.Background(), &csi.GetPluginInfoRequest{},
		grpc.WaitForReady(true))
	if err != nil {
		log.Fatal(err)
	}
	return info.GetName()
}

// serve serves on a socket, which it creates again.
func serve(server *grpc.Server, socket string) {
	socket = strings.TrimPrefix(socket, "unix://")
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}

// GetInfo serves the plugin watcher.
func (d *driver) GetInfo(context.Context, *register.InfoRequest) (*register.PluginInfo, error) {
	return &register.PluginInfo{Type: register.CSIPlugin, Name: d.name, Endpoint: d.endpoint,
		SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus takes the response of the plugin watcher.
func (d *driver) NotifyRegistrationStatus(_ context.Context,
	s *register.RegistrationStatus) (*register.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", s.GetPluginRegistered(), s.GetError())
	return &register.RegistrationStatusResponse{}, nil
}
