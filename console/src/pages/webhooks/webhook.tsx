import { Link, useParams } from '@tanstack/react-router'
import { useSession } from '../../session/session.ts'
import { countText, Time } from '../../ui/format.tsx'
import { Facts, Page } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { Actions } from './actions.tsx'
import { Deliveries } from './deliveries.tsx'
import {
  latencyText,
  rateText,
  Sparkline,
  type Statistics,
  useIsOwn,
  useStatistics,
  useWebhook,
  type Webhook,
  WebhookOwner,
  WebhookState,
} from './parts.tsx'

/** One webhook: its state, settings, actions and deliveries. */
export function WebhookPage() {
  const { id } = useParams({ from: '/webhooks/$id' })
  const query = useWebhook(id)
  const statistics = useStatistics([id]).data?.get(id)
  return (
    <Loaded query={query}>
      {({ row: webhook, etag }) => (
        <Page
          title={webhook.description ?? URL.parse(webhook.callbackUrl)?.host ?? webhook.id}
          about={
            <>
              <Link to="/webhooks">Webhooks</Link> · {webhook.event} · {webhook.callbackUrl}
            </>
          }
        >
          <Foreign webhook={webhook} />
          <Actions key={webhook.id} webhook={webhook} etag={etag} />
          <div className="grid wide">
            <About webhook={webhook} statistics={statistics} />
            <LastDay statistics={statistics} />
          </div>
          <Deliveries webhook={webhook} />
        </Page>
      )}
    </Loaded>
  )
}

function Foreign({ webhook }: { webhook: Webhook }) {
  const isOwn = useIsOwn(webhook)
  if (isOwn) return null
  return (
    <p className="notice">
      This webhook belongs to <WebhookOwner of={webhook} />. What you change here is in the audit log under your name.
      Requests are shown only for events that you may read yourself.
    </p>
  )
}

function About({ webhook, statistics }: { webhook: Webhook; statistics: Statistics | undefined }) {
  const { may } = useSession()
  const { headers = {}, previousSecretExpiresAt } = webhook
  const names = Object.entries(headers)
  return (
    <section className="card">
      <Facts
        of={[
          ['State', <WebhookState key="state" webhook={webhook} statistics={statistics} />],
          ...(may('admin') ? ([['Owner', <WebhookOwner key="owner" of={webhook} />]] as const) : []),
          ['Address', webhook.callbackUrl],
          ['Events', <code key="event">{webhook.event}</code>],
          ['Body', webhook.payloadStyle === 'plain' ? 'The event itself' : 'In an envelope'],
          ['API version', webhook.version ?? 'the newest'],
          [
            'Static headers',
            names.length === 0 ? 'none' : names.map(([name, value]) => `${name}: ${value}`).join(', '),
          ],
          ['Registered', <Time key="created" at={webhook.createdAt} />],
          ...(previousSecretExpiresAt === undefined
            ? []
            : ([['Old secret signs until', <Time key="old" at={previousSecretExpiresAt} />]] as const)),
          ['Id', <code key="id">{webhook.id}</code>],
        ]}
      />
    </section>
  )
}

function LastDay({ statistics }: { statistics: Statistics | undefined }) {
  return (
    <section className="card stack tight">
      <h2>Last 24 hours</h2>
      <Sparkline statistics={statistics} />
      <Facts
        of={[
          ['Attempts', countText(statistics?.attempts ?? 0)],
          ['Failed', countText(statistics?.failed ?? 0)],
          ['Success rate', rateText(statistics)],
          ['Median latency', latencyText(statistics?.p50Ms)],
          ['p95 latency', latencyText(statistics?.p95Ms)],
        ]}
      />
    </section>
  )
}
