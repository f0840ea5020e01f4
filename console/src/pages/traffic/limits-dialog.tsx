import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type Api, type Tagged, unwrapTagged, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { Conflict } from '../../ui/conflict.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { changes, useEdit } from '../../ui/edit.ts'
import { LimitFields, limitDraftOf, limitsOf } from '../../ui/limit-fields.tsx'
import { ErrorNotice, Loaded } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { rateWords, readUse, UseOfQuotas } from './quota-use.tsx'

/** The client whose limits are shown. */
export interface Limited {
  id: string
  name: string
}

type Client = components['schemas']['OAuthClient']
/** Shows a client's limits and current usage, and lets the user change the limits. */
export function LimitsDialog({ of, onClose }: { of: Limited; onClose: () => void }) {
  const api = useApi()
  const query = useQuery({
    queryKey: ['limits', of.id],
    // Do not fill the form with an outdated version from the cache.
    gcTime: 0,
    queryFn: async () => {
      const [loaded, use] = await Promise.all([readClient(api, of), readUse(api, of.id)])
      return { loaded, use }
    },
  })
  return (
    <Dialog title={`Limits of ${of.name}`} isOpen onClose={onClose}>
      <Loaded query={query}>
        {({ loaded, use }) => (
          <>
            <UseOfQuotas use={use} />
            <LimitsForm of={of} loaded={loaded} defaultRate={use.rate} onClose={onClose} />
          </>
        )}
      </Loaded>
    </Dialog>
  )
}

const readClient = (api: Api, { id }: Limited) =>
  unwrapTagged(api.GET('/api/clients/{id}', { params: { path: { id } } }))

interface FormProps {
  of: Limited
  loaded: Tagged<Client>
  /** The effective rate, used as the default if the client has no rate of its own. */
  defaultRate: string | null
  onClose: () => void
}

/** Manages the form's state and submits the changes. */
function useLimits({ of, loaded, defaultRate, onClose }: FormProps) {
  const api = useApi()
  const queries = useQueryClient()
  const [, usualSeconds = '60'] = defaultRate?.split('/') ?? []
  return useEdit({
    loaded,
    draftOf: (client: Client) => limitDraftOf(client, usualSeconds),
    textsOf: ({ calls, seconds, quota }) => ({
      Rate: calls === '' ? '' : rateWords(`${calls}/${seconds}`),
      'Requests per month': quota,
    }),
    patchOf: (before, after) => changes(limitsOf(before), limitsOf(after)),
    send: (body, etag) => {
      const params = { path: { id: of.id }, header: { 'If-Match': etag } }
      return unwrapTagged(api.PATCH('/api/clients/{id}', { params, body }))
    },
    read: () => readClient(api, of),
    onDone: (_, isSaved) => {
      if (isSaved) toast(`The limits of ${of.name} apply within 30 seconds`)
      onClose()
      void queries.invalidateQueries()
    },
  })
}

function LimitsForm(props: FormProps) {
  const { draft, setDraft, save, error, isRunning, conflict } = useLimits(props)
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        save()
      }}
    >
      <LimitFields draft={draft} set={(change) => setDraft({ ...draft, ...change })} error={error} />
      <ErrorNotice error={error} />
      <div className="row end">
        <Button isDisabled={isRunning} onPress={props.onClose}>
          Cancel
        </Button>
        <Button type="submit" look="primary" isDisabled={isRunning}>
          Save limits
        </Button>
      </div>
      {conflict && <Conflict {...conflict} />}
    </form>
  )
}
