import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type Api, type Tagged, unwrapTagged, useApi } from '../../api/client.ts'
import { Conflict } from '../../ui/conflict.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { changes, useEdit } from '../../ui/edit.ts'
import { countText } from '../../ui/format.tsx'
import { Loaded } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import type { ApiKey } from './access-types.ts'
import { ApiKeyForm, bodyOf, draftOf, type KeyDraft } from './api-key-form.tsx'

/** Formats a rate, given as requests/seconds, such as "600 in 60 s". */
export function rateText(rate: string | null): string {
  if (rate === null) return 'Default'
  const [calls, seconds] = rate.split('/')
  return `${countText(Number(calls))} in ${seconds} s`
}

/** Reads a key with its entity tag, which the list does not contain. */
export const readKey = (api: Api, id: string) => unwrapTagged(api.GET('/api/keys/{id}', { params: { path: { id } } }))

/** The dialog that changes a key. */
export function EditKey({ apiKey: { id, name }, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const api = useApi()
  // Do not fill the form with an outdated version from the cache.
  const query = useQuery({ queryKey: ['api-keys', id], queryFn: () => readKey(api, id), gcTime: 0 })
  return (
    <Dialog title={`Edit ${name}`} isOpen onClose={onClose}>
      <Loaded query={query}>{(loaded) => <KeySettings loaded={loaded} onClose={onClose} />}</Loaded>
    </Dialog>
  )
}

function KeySettings({ loaded, onClose }: { loaded: Tagged<ApiKey>; onClose: () => void }) {
  const api = useApi()
  const queries = useQueryClient()
  const { id } = loaded.row
  const edit = useEdit({
    ...{ loaded, draftOf, read: () => readKey(api, id) },
    textsOf: ({ name, calls, seconds, quota, expires }: KeyDraft) => ({
      ...{ Name: name, Rate: calls === '' ? '' : rateText(`${calls}/${seconds}`) },
      ...{ 'Requests per month': quota, Expires: expires.replace('T', ' ') },
    }),
    patchOf: (before, after) => changes(bodyOf(before), bodyOf(after)),
    send: (body, etag) =>
      unwrapTagged(api.PATCH('/api/keys/{id}', { params: { path: { id }, header: { 'If-Match': etag } }, body })),
    onDone: (_, isSaved) => {
      if (isSaved) toast('Saved')
      void queries.invalidateQueries({ queryKey: ['api-keys'] })
      onClose()
    },
  })
  return (
    <>
      <ApiKeyForm
        {...{ draft: edit.draft, onChange: edit.setDraft, action: 'Save' }}
        error={edit.error}
        isRunning={edit.isRunning}
        onSubmit={edit.save}
      />
      {edit.conflict && <Conflict {...edit.conflict} />}
    </>
  )
}
