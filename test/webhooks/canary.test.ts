import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { type AddressInfo, createServer, isIPv6, type Server } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { checkTarget } from '../../src/http/ssrf-guard.ts'
import { type SenderOptions, sender } from '../../src/webhooks/dispatch/http-client.ts'
import type { CallOutcome } from '../../src/webhooks/dispatch/outcome.ts'

const shut = { allowHttp: true, allowCidrs: [] }
const body = Buffer.from('{}')

// Notations of special-purpose addresses. In the authorities below, PORT is replaced by the port of the listeners.
const spellings = [
  ...['127.0.0.1', '127.0.0.2', '127.0.0.1.', '127.1', '127.0.1', '2130706433', '2130706434', '0x7f000001', '0x7f.1'],
  ...['0x7f.0.0.0x1', '017700000001', '0177.0.0.1', '0177.0000.0000.0001', '0177.1', '0x7F.0X0.0x0.1', '127.0x0.1'],
  ...['１２７.０.０.１', '127。0。0。1', '①②⑦.⓪.⓪.①', '%31%32%37.0.0.1', '127.0.0.1%2e', '127.0.0\u00ad.1'],
  ...['127.0.0\u200b.1', '127.255.255.254', '0', '0.0.0.0', '0x0', '00', '0.0', 'localhost', 'LOCALHOST', 'localhost.'],
  ...['ｌｏｃａｌｈｏｓｔ', 'loc%61lhost', 'api.localhost', 'api.localhost.', '[::1]', '[0:0:0:0:0:0:0:1]', '[::]'],
  ...['[0000::0001]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::FFFF:7F00:0001]', '[0:0:0:0:0:ffff:127.0.0.1]'],
  ...[
    '[::127.0.0.1]',
    '[::7f00:1]',
    '[::ffff:0:7f00:1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b:1::1]',
  ],
  ...[
    '[2002:7f00:1::]',
    '[2001:0:7f00:1::]',
    '[2001::7f00:1]',
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '169.254.169.254',
  ],
  ...['2852039166', '0xa9fea9fe', '100.64.0.1', '168.63.129.16', '[fd00:ec2::254]', '[fe80::1]', '[ff02::1]'],
]

const authorities = [
  'user@127.0.0.1:PORT',
  'a:b@localhost:PORT',
  'example.com@127.0.0.1:PORT',
  '127.0.0.1:PORT#@example.com',
]

// Addresses that an attacker's DNS server may return at delivery.
const addresses = [
  ...[
    '127.0.0.1',
    '127.0.0.2',
    '127.255.255.254',
    '0.0.0.0',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.0.1',
  ],
  ...['169.254.169.254', '100.64.0.1', '100.100.100.200', '192.0.0.192', '168.63.129.16', '192.0.2.1', '198.18.0.1'],
  ...['198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255', '192.88.99.1'],
  ...['::', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1', '::127.0.0.1', '::ffff:0:127.0.0.1', '64:ff9b::7f00:1'],
  ...[
    '64:ff9b:1::1',
    '2002:7f00:1::',
    '2001::1',
    '2001:db8::1',
    'fd00:ec2::254',
    'fc00::1',
    'fe80::1',
    'ff02::1',
    '100::1',
  ],
]

describe(`SSRF protection (${spellings.length} hosts, ${addresses.length} resolved addresses)`, () => {
  const canaries: Server[] = []
  let port = 0
  let packets = 0
  let sockets = 0
  const countSocket = () => void sockets++
  const client = sender({ policy: shut, timeoutMs: 1_000, now: Date.now })

  before(async () => {
    for (const host of ['127.0.0.1', '127.0.0.2', '::1']) {
      const canary = createServer((socket) => {
        packets += 1
        socket.destroy()
      }).listen(port, host)
      const there = await once(canary, 'listening').then(
        () => true,
        (error) => {
          if (host === '::1' && error.code === 'EADDRNOTAVAIL') return false
          throw error
        },
      )
      if (!there) continue
      canaries.push(canary)
      port = (canary.address() as AddressInfo).port
    }
    channel('net.client.socket').subscribe(countSocket)
  })
  after(async () => {
    channel('net.client.socket').unsubscribe(countSocket)
    for (const canary of canaries) canary.close()
    await client.close()
  })

  /** Returns the fields of an outcome that the webhook's owner can see. */
  const visible = ({ blocked: _, cause: _operators, durationMs, ...rest }: CallOutcome) => ({
    ...rest,
    durationMs: durationMs % 100,
  })
  const unreachable = {
    ...{ status: null, delivered: false, gone: false, retryAfterSeconds: null, error: 'unreachable' },
    ...{ responseStart: null, responseHeaders: null, durationMs: 0 },
  }
  const post = (url: string, options: Partial<SenderOptions> = {}) => {
    const one =
      Object.keys(options).length > 0 ? sender({ policy: shut, timeoutMs: 1_000, now: Date.now, ...options }) : client
    return one.post({ url, headers: {}, body }).finally(() => one === client || one.close())
  }

  it('T-SSRF-01 T-SSRF-02 T-SSRF-07 opens no socket for any blocked host, and reports it as unreachable', async () => {
    const texts = [...spellings.map((host) => `${host}:PORT`), ...authorities]
    for (const text of texts) {
      for (const scheme of ['http', 'https']) {
        const url = `${scheme}://${text.replace('PORT', String(port))}/hook`
        const before = sockets
        assert.deepEqual(visible(await post(url)), unreachable, url)
        assert.equal(sockets, before, `${url} made a socket`)
      }
    }
    assert.equal(packets, 0)
  })

  it('T-SSRF-04 sends no packet to a blocked address that the resolver returns only at delivery', async () => {
    for (const address of addresses) {
      const responses = ['93.184.215.14', address]
      const lookup = async () => [{ address: responses.shift() ?? address }]
      const url = `http://rebind.test:${port}/hook`
      assert.equal((await checkTarget(shut, url, lookup)).ok, true)
      const before = packets
      const outcome = await post(url, { lookup })
      assert.deepEqual([outcome.blocked, visible(outcome)], [true, unreachable], address)
      assert.deepEqual([responses.length, packets], [0, before], address)
    }
    assert.equal(packets, 0)
  })

  it('T-SSRF-04 sends no packet if any resolved address is blocked, in any position', async () => {
    for (const address of addresses) {
      for (const both of [
        ['93.184.215.14', address],
        [address, '2606:4700::1111'],
      ]) {
        const lookup = async () => both.map((one) => ({ address: one }))
        assert.equal((await checkTarget(shut, 'https://mixed.test/', lookup)).ok, false)
        assert.deepEqual(visible(await post(`http://mixed.test:${port}/`, { lookup })), unreachable)
      }
    }
    assert.equal(packets, 0)
  })

  it('T-SSRF-08 reports an open port at a blocked address exactly like a closed port at an allowed one', async () => {
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port: free } = closed.address() as AddressInfo
    await once(closed.close(), 'close')
    const [open, shutPort, refused] = [
      await post(`http://127.0.0.1:${port}/`),
      await post(`http://127.0.0.1:${free}/`),
      // The closed port again, but at an allowed address: the outcome of any unreachable endpoint.
      await post(`http://127.0.0.1:${free}/`, { policy: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } }),
    ]
    assert.deepEqual([open.durationMs, shutPort.durationMs], [100, 100])
    assert.deepEqual(visible(open), visible(refused))
    assert.deepEqual([packets, open.blocked, shutPort.blocked, refused.blocked], [0, true, true, false])
  })

  it('detects each socket and packet of allowed calls (sanity check of the listeners)', async () => {
    const policy = { allowHttp: true, allowCidrs: ['127.0.0.0/8', '::1/128'] }
    const hosts = canaries.map((canary) => (canary.address() as AddressInfo).address)
    assert.ok(hosts.includes('127.0.0.1') && hosts.includes('127.0.0.2'))
    const [packetsBefore, socketsBefore] = [packets, sockets]
    for (const host of hosts) await post(`http://${isIPv6(host) ? `[${host}]` : host}:${port}/`, { policy })
    assert.deepEqual([packets - packetsBefore, sockets - socketsBefore], [hosts.length, hosts.length])
  })
})
