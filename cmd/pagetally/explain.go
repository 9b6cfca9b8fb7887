package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pagetally/pagetally/ingest"
	"github.com/pagetally/pagetally/ingest/journal"
)

// explainCommand says what would happen to a hit, with the settings of this command line or of a running server.
type explainCommand struct {
	What     string   `arg:"" help:"URL of a page view, or file that holds the body a tracker or job sends; '-' is standard input." placeholder:"URL|FILE"`
	Domain   string   `help:"The site that a page view names. Empty: found by the page's host."`
	Header   []string `short:"H" sep:"none" help:"Header of the request, as in curl. Without a User-Agent a browser's is assumed." placeholder:"'NAME: VALUE'"`
	Endpoint string   `help:"Where the request goes, 'POST /api/send'. Empty: by what the body looks like."`
	Peer     string   `help:"Address that the connection comes from." default:"203.0.113.1"`
	Server   string   `help:"Ask this running server, which has the limits and salts of now. Empty: without one, by the settings." placeholder:"URL"`
	Key      string   `help:"API key with the scope ingest, for --server." placeholder:"SECRET"`
	JSON     bool     `name:"json" help:"Print JSON instead of text."`
}

// Help is the longer help.
func (explainCommand) Help() string {
	return "Nothing is stored, and no limit takes notice."
}

// maxExplainedBody is more than the server reads.
const maxExplainedBody = 1 << 20

// Run explains the hit and prints how it would fare.
func (e explainCommand) Run(ctx context.Context, s *Settings, out io.Writer) error {
	question, err := e.question(os.Stdin)
	if err != nil {
		return err
	}
	ask := e.offline
	if e.Server != "" {
		ask = e.online
	}
	x, err := ask(ctx, s, question)
	if err != nil {
		return err
	}
	if !e.JSON {
		return x.WriteText(out)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(x)
}

func (e explainCommand) question(stdin io.Reader) (q ingest.ExplainRequest, err error) {
	q = ingest.ExplainRequest{Endpoint: e.Endpoint, Peer: e.Peer, Headers: map[string]string{}}
	for _, header := range e.Header {
		name, value, ok := strings.Cut(header, ":")
		if !ok {
			return q, fmt.Errorf("--header: %q has no colon", header)
		}
		q.Headers[name] = strings.TrimSpace(value)
	}
	if strings.Contains(e.What, "://") {
		q.URL, q.Site = e.What, e.Domain
		return q, nil
	}
	if e.Domain != "" {
		return q, errors.New("--domain: a body names its site itself")
	}
	body, err := readBody(e.What, stdin)
	if err != nil {
		return q, fmt.Errorf("read body: %w", err)
	}
	q.Body = body
	if !json.Valid(body) {
		q.Body, err = json.Marshal(string(body)) // sent as it is
	}
	return q, err
}

func readBody(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, maxExplainedBody))
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxExplainedBody))
}

// offline explains by the settings, with the last known sites and keys of the data folder and limits of which nothing is used.
func (explainCommand) offline(_ context.Context, s *Settings, q ingest.ExplainRequest) (x ingest.Explanation, err error) {
	sites, err := s.liveSites(nil, nil)
	if err != nil {
		return x, err
	}
	proxies, err := s.proxies()
	if err != nil {
		return x, err
	}
	keys, err := ingest.OpenKeys(ingest.KeysConfig{Path: s.path(keysFile)})
	if err != nil {
		return x, err
	}
	enrich, err := s.openEnrichment(nil, nil)
	if err != nil {
		return x, err
	}
	receives := ingest.Config{
		Journal: noJournal{}, Keys: keys, Salts: anySalt{}, Sites: sites.Sites, Node: "explain", Proxies: proxies, TrustLoopback: s.trustsLoopback(),
	}
	enrich.into(&receives)
	server, err := ingest.New(receives)
	if err != nil {
		return x, err
	}
	return server.Explain(q)
}

// online asks a running server.
func (e explainCommand) online(ctx context.Context, _ *Settings, q ingest.ExplainRequest) (x ingest.Explanation, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return x, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(e.Server, "/")+"/v1/explain", bytes.NewReader(body))
	if err != nil {
		return x, fmt.Errorf("--server: %w", err)
	}
	if e.Key != "" {
		request.Header.Set("Authorization", "Bearer "+e.Key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return x, fmt.Errorf("ask server: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return x, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return x, fmt.Errorf("server answers %s: %.500s", response.Status, answer)
	}
	return x, json.Unmarshal(answer, &x)
}

// noJournal takes nothing: what is explained is not stored.
type noJournal struct{}

// Append refuses.
func (noJournal) Append(context.Context, []byte, int) (journal.Position, error) {
	return journal.Position{}, journal.ErrClosed
}

// anySalt stands in for the salts: an explanation shows no visitor.
type anySalt struct{}

// For returns zeros.
func (anySalt) For(ingest.Day) ([16]byte, error) { return [16]byte{}, nil }
