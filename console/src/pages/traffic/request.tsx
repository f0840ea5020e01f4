import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ApiError, unwrap, useApi } from '../../api/client.ts'
import { CopyButton } from '../../ui/copy.tsx'
import { durationText, Time } from '../../ui/format.tsx'
import { Facts, Page } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { FindRequest } from './find-request.tsx'
import { type Logged, StatusBadge } from './requests.tsx'
import type { RequestFilter } from './route.ts'

const route = getRouteApi('/requests/$requestId')

/** One request, found by its id. */
export function RequestDetails() {
  const { requestId } = route.useParams()
  const api = useApi()
  const request = useQuery({
    queryKey: ['request', requestId],
    queryFn: () => unwrap(api.GET('/api/requests/{requestId}', { params: { path: { requestId } } })),
  })
  const { error } = request
  return (
    <Page
      title="Request"
      about={<code>{requestId}</code>}
      actions={
        <>
          <CopyButton text={requestId} label="Copy the id" />
          <Link to="/requests" className="button">
            Recent requests
          </Link>
        </>
      }
    >
      <FindRequest key={requestId} />
      {error instanceof ApiError && error.status === 404 ? (
        <Empty title="The request was not found">
          <p>{error.message}. A request is found about five seconds after its response.</p>
        </Empty>
      ) : (
        <Loaded query={request}>{(found) => <Details of={found} />}</Loaded>
      )}
    </Page>
  )
}

function Details({ of }: { of: Logged }) {
  const { at, method, path, status, durationMs, clientId, clientName, subject, userName, address, errorCode } = of
  const among = (text: string, search: RequestFilter) => (
    <Link to="/requests" search={search}>
      {text}
    </Link>
  )
  const nameAndId = (name: string | undefined, id: string) => (name === undefined ? id : `${name} (${id})`)
  return (
    <div className="card">
      <Facts
        of={[
          [
            'Request',
            <code key="line">
              {method} {path}
            </code>,
          ],
          ['Status', <StatusBadge key="status" status={status} />],
          ['Error', errorCode && <a href={problemPath(errorCode)}>{errorCode}</a>],
          ['Time', <Time key="at" at={at} />],
          ['Duration', durationText(durationMs)],
          ['Client', clientId && among(nameAndId(clientName, clientId), { clientId })],
          ['User', subject && subject !== clientId && among(nameAndId(userName, subject), { subject })],
          ['Address', address && among(address, { address })],
          ['Node', <code key="node">{of.node}</code>],
        ].map(([name, value]) => [name as string, value || '–'] as const)}
      />
    </div>
  )
}

/** Returns the path of the service's page about an error code. */
const problemPath = (code: string) => `/problems/${code.toLowerCase().replaceAll('_', '-')}`
