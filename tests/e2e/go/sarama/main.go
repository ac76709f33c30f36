// SPDX-License-Identifier: Apache-2.0

// IBM's sarama as a helper of the tests.
//
//	sarama BOOTSTRAP                                           answers the words of tests/e2e/client_words.py, all of them
//	sarama member BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE]    a member as tests/e2e/member_confluent.py describes it; strategies:
//	                                                           range, roundrobin, sticky, cooperative-sticky. Each claim of a partition
//	                                                           says 'assigned' and 'revoked' for itself.
package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"weir/tests/e2e/go/words"
)

const patience = 50 * time.Second

type client struct {
	bootstrap string
	plain     sarama.Client
	admin     sarama.ClusterAdmin
	producers map[string]sarama.SyncProducer
}

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = "sarama"
	config.Metadata.Retry.Max = 100
	return config
}

func toldName(err error, message *string) error {
	name := nameOf(err)
	if name == "" || message == nil {
		return err
	}
	return &words.Failed{Name: name, Message: *message}
}

func told(err error) error {
	var topic *sarama.TopicError
	if errors.As(err, &topic) {
		return toldName(topic.Err, topic.ErrMsg)
	}
	var partition *sarama.TopicPartitionError
	if errors.As(err, &partition) {
		return toldName(partition.Err, partition.ErrMsg)
	}
	return err
}

func nameOf(err error) string {
	var code sarama.KError
	if errors.As(err, &code) {
		return words.NameOfCode(int16(code))
	}
	return ""
}

// open makes the clients when they are first asked for: they connect at once.
func (c *client) open() error {
	if c.admin != nil {
		return nil
	}
	plain, err := sarama.NewClient([]string{c.bootstrap}, newConfig())
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdminFromClient(plain)
	if err == nil {
		c.plain, c.admin = plain, admin
	}
	return err
}

func (c *client) opened(call words.Call) words.Call {
	return func(args []string, records []words.Record) ([]words.Row, error) {
		if err := c.open(); err != nil {
			return nil, err
		}
		rows, err := call(args, records)
		return rows, told(err)
	}
}

func (c *client) create(args []string, _ []words.Record) ([]words.Row, error) {
	partitions, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	detail := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
	for name, value := range words.Configs(args[2]) {
		detail.ConfigEntries[name] = &value
	}
	return nil, c.admin.CreateTopic(args[0], detail, false)
}

func (c *client) delete(args []string, _ []words.Record) ([]words.Row, error) {
	return nil, c.admin.DeleteTopic(args[0])
}

func (c *client) topics([]string, []words.Record) ([]words.Row, error) {
	topics, err := c.admin.ListTopics()
	var rows []words.Row
	for name := range topics {
		rows = append(rows, words.Row{name})
	}
	return words.Sorted(rows), err
}

func (c *client) configsOf(resource sarama.ConfigResource) ([]words.Row, error) {
	entries, err := c.admin.DescribeConfig(resource)
	var rows []words.Row
	for _, entry := range entries {
		rows = append(rows, words.Row{entry.Name, entry.Value})
	}
	return words.Sorted(rows), err
}

func (c *client) configs(args []string, _ []words.Record) ([]words.Row, error) {
	return c.configsOf(sarama.ConfigResource{Type: sarama.TopicResource, Name: args[0]})
}

func (c *client) brokerConfigs([]string, []words.Record) ([]words.Row, error) {
	_, controller, err := c.admin.DescribeCluster()
	if err != nil {
		return nil, err
	}
	return c.configsOf(sarama.ConfigResource{Type: sarama.BrokerResource, Name: strconv.Itoa(int(controller))})
}

func (c *client) alterConfigs(args []string, _ []words.Record) ([]words.Row, error) {
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range words.Configs(args[1]) {
		entries[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	}
	return nil, c.admin.IncrementalAlterConfig(sarama.TopicResource, args[0], entries, false)
}

func (c *client) replaceConfigs(args []string, _ []words.Record) ([]words.Row, error) {
	entries := map[string]*string{}
	for name, value := range words.Configs(args[1]) {
		entries[name] = &value
	}
	return nil, c.admin.AlterConfig(sarama.TopicResource, args[0], entries, false)
}

func (c *client) addPartitions(args []string, _ []words.Record) ([]words.Row, error) {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	return nil, c.admin.CreatePartitions(args[0], int32(count), nil, false)
}

func (c *client) partitionsOf(topic string) ([]int32, error) {
	if err := c.plain.RefreshMetadata(topic); err != nil {
		return nil, err
	}
	return c.plain.Partitions(topic)
}

func (c *client) listOffsets(args []string, _ []words.Record) ([]words.Row, error) {
	at, is := map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}[args[1]]
	if !is {
		var err error
		if at, err = strconv.ParseInt(args[1], 10, 64); err != nil {
			return nil, err
		}
	}
	partitions, err := c.partitionsOf(args[0])
	if err != nil {
		return nil, err
	}
	asked := map[int32]int64{}
	for _, partition := range partitions {
		asked[partition] = at
	}
	listed, err := c.admin.ListOffsets(map[string]map[int32]int64{args[0]: asked}, nil)
	var rows []words.Row
	for partition, result := range listed[args[0]] {
		if result.Err != sarama.ErrNoError {
			err = errors.Join(err, result.Err)
		}
		rows = append(rows, words.Row{partition, result.Offset})
	}
	return words.Sorted(rows), err
}

func (c *client) deleteRecords(args []string, _ []words.Record) ([]words.Row, error) {
	before, err := words.Offsets(args[1])
	if err != nil {
		return nil, err
	}
	return nil, c.admin.DeleteRecords(args[0], before)
}

func (c *client) groups([]string, []words.Record) ([]words.Row, error) {
	groups, err := c.admin.ListConsumerGroups()
	var rows []words.Row
	for name := range groups {
		rows = append(rows, words.Row{name})
	}
	return words.Sorted(rows), err
}

func (c *client) group(args []string, _ []words.Record) ([]words.Row, error) {
	described, err := c.admin.DescribeConsumerGroups([]string{args[0]})
	if err != nil {
		return nil, err
	}
	group := described[0]
	if group.Err != sarama.ErrNoError {
		return nil, group.Err
	}
	rows := []words.Row{{group.State, len(group.Members)}}
	for id, member := range group.Members {
		instance := ""
		if member.GroupInstanceId != nil {
			instance = *member.GroupInstanceId
		}
		rows = append(rows, words.Row{id, instance, member.ClientId, member.ClientHost})
	}
	return rows, nil
}

func (c *client) committed(args []string, _ []words.Record) ([]words.Row, error) {
	fetched, err := c.admin.ListConsumerGroupOffsets(args[0], nil)
	if err != nil {
		return nil, err
	}
	if fetched.Err != sarama.ErrNoError {
		return nil, fetched.Err
	}
	var rows []words.Row
	for partition, block := range fetched.Blocks[args[1]] {
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		rows = append(rows, words.Row{partition, block.Offset})
	}
	return words.Sorted(rows), nil
}

func (c *client) deleteGroup(args []string, _ []words.Record) ([]words.Row, error) {
	return nil, c.admin.DeleteConsumerGroup(args[0])
}

// producer is kept, so that what it knows of topics and of its sequences outlives them and the broker.
func (c *client) producer(codec string) (sarama.SyncProducer, error) {
	if producer, is := c.producers[codec]; is {
		return producer, nil
	}
	config := newConfig()
	if err := config.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return nil, &words.Failed{Name: "NO_SUCH_CODEC", Message: codec}
	}
	config.Metadata.RefreshFrequency = time.Second
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	config.Producer.Retry.Max = 300
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{c.bootstrap}, config)
	if err == nil {
		c.producers[codec] = producer
	}
	return producer, err
}

func encoder(data []byte) sarama.Encoder {
	if data == nil {
		return nil
	}
	return sarama.ByteEncoder(data)
}

func (c *client) produce(args []string, records []words.Record) ([]words.Row, error) {
	producer, err := c.producer(args[1])
	if err != nil {
		return nil, err
	}
	out := make([]*sarama.ProducerMessage, 0, len(records))
	for _, r := range records {
		message := &sarama.ProducerMessage{Topic: args[0], Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp),
			Key: encoder(r.Key), Value: encoder(r.Value)}
		for _, h := range r.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
		out = append(out, message)
	}
	if err := producer.SendMessages(out); err != nil {
		var many sarama.ProducerErrors
		if errors.As(err, &many) && len(many) > 0 {
			return nil, many[0].Err
		}
		return nil, err
	}
	rows := make([]words.Row, 0, len(out))
	for _, message := range out {
		rows = append(rows, words.Row{message.Partition, message.Offset})
	}
	return rows, nil
}

func (c *client) consume(args []string, _ []words.Record) ([]words.Row, error) {
	left, err := words.Offsets(args[1])
	if err != nil {
		return nil, err
	}
	where, err := words.ReadWhere(args, 2)
	if err != nil {
		return nil, err
	}
	config := newConfig()
	config.Consumer.Retry.Backoff = 200 * time.Millisecond
	own, err := sarama.NewClient([]string{c.bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	consumer, err := sarama.NewConsumerFromClient(own)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	messages := make(chan *sarama.ConsumerMessage)
	done := make(chan struct{})
	defer close(done)
	for partition, end := range left {
		if end == 0 {
			delete(left, partition)
			continue
		}
		from := where.At
		switch where.Kind {
		case "beginning":
			from = sarama.OffsetOldest
		case "time":
			if from, err = own.GetOffset(args[0], partition, where.At); err != nil {
				return nil, err
			}
		}
		part, err := consumer.ConsumePartition(args[0], partition, from)
		if err != nil {
			return nil, err
		}
		defer part.AsyncClose()
		go func() {
			for message := range part.Messages() {
				select {
				case messages <- message:
				case <-done:
				}
			}
		}()
	}
	deadline := time.After(patience)
	var out []words.Record
	for len(left) > 0 {
		var m *sarama.ConsumerMessage
		select {
		case m = <-messages:
		case <-deadline:
			return nil, &words.Failed{Name: "TIMED_OUT", Message: "nothing more came"}
		}
		end, is := left[m.Partition]
		if !is || m.Offset >= end {
			continue
		}
		record := words.Record{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			record.Headers = append(record.Headers, words.Header{Name: string(h.Key), Value: h.Value})
		}
		out = append(out, record)
		if m.Offset+1 >= end {
			delete(left, m.Partition)
		}
	}
	return words.RecordRows(out), nil
}

// ---- a member ----

// handler says what becomes of its claims. Whether a commit was one it asks the coordinator: sarama's Commit has no answer.
type handler struct {
	client sarama.Client
	group  string
}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) committed(topic string, partition int32) (int64, error) {
	coordinator, err := h.client.Coordinator(h.group)
	if err != nil {
		return 0, err
	}
	answer, err := coordinator.FetchOffset(sarama.NewOffsetFetchRequest(h.client.Config().Version, h.group, map[string][]int32{topic: {partition}}))
	if err != nil {
		_ = coordinator.Close()
		return 0, err
	}
	block := answer.GetBlock(topic, partition)
	if block == nil {
		return 0, errors.Join(sarama.ErrIncompleteResponse, answer.Err)
	}
	if block.Err != sarama.ErrNoError {
		return 0, block.Err
	}
	return block.Offset, nil
}

func (h handler) commit(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim, next int64) bool {
	session.Commit()
	deadline := time.Now().Add(patience / 5)
	for {
		at, err := h.committed(claim.Topic(), claim.Partition())
		switch {
		case err == nil && at == next:
			words.Say("committed", claim.Partition())
			return true
		case err == nil || time.Now().After(deadline):
			words.Say("uncommitted", words.NameOr(nameOf, err), claim.Partition())
			return false
		}
		time.Sleep(50 * time.Millisecond)
		_ = h.client.RefreshCoordinator(h.group)
	}
}

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	words.Say("assigned", claim.Partition())
	defer words.Say("revoked", claim.Partition())
	waiting, next, isCommitted := 0, int64(0), true
	for {
		select {
		case message, is := <-claim.Messages():
			if is {
				words.Say("record", message.Partition, message.Offset)
				session.MarkMessage(message, "")
				waiting, next, isCommitted = waiting+1, message.Offset+1, false
				if waiting == 30 || len(claim.Messages()) == 0 {
					waiting, isCommitted = 0, h.commit(session, claim, next)
				}
				continue
			}
		case <-session.Context().Done():
		}
		if !isCommitted {
			h.commit(session, claim, next)
		}
		return nil
	}
}

func member(ctx context.Context, args words.MemberArgs) error {
	strategy, is := map[string]sarama.BalanceStrategy{"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky": sarama.NewBalanceStrategySticky(), "cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky()}[args.Strategy]
	if !is {
		return errors.New("no such strategy: " + args.Strategy)
	}
	config := newConfig()
	config.Metadata.RefreshFrequency = 2 * time.Second
	config.Consumer.Return.Errors = true
	config.Consumer.Retry.Backoff = 200 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = args.Session
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	config.Consumer.Group.Rebalance.Retry.Backoff = 200 * time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Max = 100
	config.Consumer.Group.InstanceId = args.Instance
	group, err := sarama.NewConsumerGroup([]string{args.Bootstrap}, args.Group, config)
	if err != nil {
		return err
	}
	client, err := sarama.NewClient([]string{args.Bootstrap}, config)
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			words.Say("failed", words.NameOr(nameOf, err), err)
		}
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{args.Topic}, handler{client, args.Group}); err != nil && ctx.Err() == nil {
			words.Say("failed", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	if err := group.Close(); err != nil {
		words.Say("failed", err)
	}
	words.Say("closed")
	return nil
}

func main() {
	if words.RunMember(member) {
		return
	}
	c := &client{bootstrap: os.Args[1], producers: map[string]sarama.SyncProducer{}}
	calls := map[string]words.Call{
		"create": c.create, "delete": c.delete, "topics": c.topics, "configs": c.configs, "broker_configs": c.brokerConfigs,
		"alter_configs": c.alterConfigs, "replace_configs": c.replaceConfigs, "add_partitions": c.addPartitions,
		"list_offsets": c.listOffsets, "delete_records": c.deleteRecords, "produce": c.produce, "consume": c.consume,
		"groups": c.groups, "group": c.group, "committed": c.committed, "delete_group": c.deleteGroup,
	}
	for name, call := range calls {
		calls[name] = c.opened(call)
	}
	words.Serve(calls, nameOf)
}
