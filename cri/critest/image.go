package critest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageStore has the images that are present and those that can be pulled.
type imageStore struct {
	every   bool // every image is there
	present map[string]*runtimeapi.Image
	// pullable are the images that a registry has; nil is all.
	pullable map[string]bool
	holds    map[string]*Hold
	pulling  map[string]int
}

func newImageStore() imageStore {
	return imageStore{every: true, present: map[string]*runtimeapi.Image{}, holds: map[string]*Hold{},
		pulling: map[string]int{}}
}

type imageServer struct {
	runtimeapi.UnimplementedImageServiceServer
	f *Fake
}

// SetImages sets which images are present; every other one must be pulled. Before
// it is called, every image is present.
func (f *Fake) SetImages(refs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images.every = false
	f.images.present = map[string]*runtimeapi.Image{}
	for _, ref := range refs {
		f.images.add(ref)
	}
	f.changed.Notify()
}

// SetPullable sets which images the registry has. Before it is called, it has
// all.
func (f *Fake) SetPullable(refs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images.pullable = map[string]bool{}
	for _, ref := range refs {
		f.images.pullable[normal(ref)] = true
	}
}

// Images returns the references of the images that are present, sorted.
func (f *Fake) Images() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var refs []string
	for ref := range f.images.present {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	return refs
}

// Pulling returns how many pulls of an image are in progress, held ones included.
func (f *Fake) Pulling(ref string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.images.pulling[normal(ref)]
}

// HoldPull blocks pulls of an image until the Hold is released. "*" blocks those
// of all images that have no hold of their own.
func (f *Fake) HoldPull(ref string) *Hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := newHold()
	f.images.holds[normal(ref)] = h
	return h
}

func (s *imageServer) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse,
	error) {
	f := s.f
	ref := normal(r.GetImage().GetImage())
	f.mu.Lock()
	hold := cmp.Or(f.images.holds[ref], f.images.holds["*"])
	f.images.pulling[ref]++
	f.changed.Notify()
	f.mu.Unlock()
	err := hold.wait(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.changed.Notify()
	if f.images.pulling[ref]--; f.images.pulling[ref] == 0 {
		delete(f.images.pulling, ref)
	}
	if err != nil {
		return nil, err
	}
	if f.images.pullable != nil && !f.images.pullable[ref] {
		return nil, status.Errorf(codes.NotFound,
			"failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", ref, ref, ref)
	}
	return &runtimeapi.PullImageResponse{ImageRef: imageRef(f.images.add(ref))}, nil
}

func (s *imageServer) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse,
	error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return &runtimeapi.ImageStatusResponse{Image: s.f.images.find(r.GetImage().GetImage())}, nil
}

func (s *imageServer) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse,
	error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	a := &runtimeapi.ListImagesResponse{}
	for _, image := range s.f.images.present {
		a.Images = append(a.Images, image)
	}
	return a, nil
}

func (s *imageServer) RemoveImage(_ context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse,
	error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	gone := s.f.images.find(r.GetImage().GetImage())
	for ref, image := range s.f.images.present {
		if image == gone {
			delete(s.f.images.present, ref)
		}
	}
	s.f.changed.Notify()
	return &runtimeapi.RemoveImageResponse{}, nil
}

func (s *imageServer) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse,
	error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	var used uint64
	for _, image := range s.f.images.present {
		used += image.Size
	}
	usage := &runtimeapi.FilesystemUsage{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: "/var/lib/critest"},
		UsedBytes:  &runtimeapi.UInt64Value{Value: used},
		InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(s.f.images.present))},
	}
	return &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems:     []*runtimeapi.FilesystemUsage{usage},
		ContainerFilesystems: []*runtimeapi.FilesystemUsage{usage},
	}, nil
}

// add adds an image. The fake's lock is held.
func (s *imageStore) add(ref string) *runtimeapi.Image {
	ref = normal(ref)
	if image := s.present[ref]; image != nil {
		return image
	}
	sum := sha256.Sum256([]byte(ref))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	image := &runtimeapi.Image{Id: digest, Size: 1 << 20, Spec: &runtimeapi.ImageSpec{Image: ref}}
	if name, pinned, ok := strings.Cut(ref, "@"); ok {
		image.RepoDigests = []string{name + "@" + pinned}
	} else {
		image.RepoTags = []string{ref}
		image.RepoDigests = []string{ref[:strings.LastIndexByte(ref, ':')] + "@" + digest}
	}
	s.present[ref] = image
	return image
}

// find looks an image up by reference or ID. The fake's lock is held.
func (s *imageStore) find(ref string) *runtimeapi.Image {
	if ref == "" {
		return nil
	}
	if image := s.present[normal(ref)]; image != nil {
		return image
	}
	for _, image := range s.present {
		if image.Id == ref || slices.Contains(image.RepoDigests, ref) {
			return image
		}
	}
	if s.every {
		return s.add(ref)
	}
	return nil
}

func (s *imageStore) releaseAll() {
	for _, h := range s.holds {
		h.Release()
	}
}

// normal returns a reference in full, as containerd does.
func normal(ref string) string {
	if ref == "*" {
		return ref
	}
	first, _, more := strings.Cut(ref, "/")
	switch {
	case !more:
		ref = "docker.io/library/" + ref
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		ref = "docker.io/" + ref
	}
	if last := ref[strings.LastIndexByte(ref, '/'):]; !strings.ContainsAny(last, ":@") {
		ref += ":latest"
	}
	return ref
}

func imageRef(image *runtimeapi.Image) string {
	if len(image.GetRepoDigests()) > 0 {
		return image.RepoDigests[0]
	}
	return image.GetId()
}
