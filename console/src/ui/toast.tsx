import { Text } from 'react-aria-components/Text'
import {
  UNSTABLE_Toast as Toast,
  UNSTABLE_ToastContent as ToastContent,
  UNSTABLE_ToastQueue as ToastQueue,
  UNSTABLE_ToastRegion as ToastRegion,
} from 'react-aria-components/Toast'
import { Button } from './button.tsx'

interface Action {
  label: string
  run: () => void
  /**
   * Called when the message disappears without the user having taken the action. The message stays while it is hovered
   * or focused.
   */
  otherwise?: () => void
}

interface Message {
  text: string
  action?: Action | undefined
}

const visibleMs = 6_000
const queue = new ToastQueue<Message>({ maxVisibleToasts: 3 })

/** Shows a message for a few seconds, with an optional action such as "Undo". Returns a function that removes it. */
export function toast(text: string, action?: Action, ms = visibleMs): () => void {
  let isTaken = false
  const run = () => {
    isTaken = true
    action?.run()
  }
  const onClose = () => {
    if (!isTaken) action?.otherwise?.()
  }
  const key = queue.add({ text, action: action && { ...action, run } }, { timeout: ms, onClose })
  return () => queue.close(key)
}

/** The region in which messages appear. Render it once per page. */
export function Toasts() {
  return (
    <ToastRegion queue={queue} className="toasts">
      {({ toast: one }) => (
        <Toast toast={one} className="toast">
          <ToastContent>
            <Text slot="title">{one.content.text}</Text>
          </ToastContent>
          {one.content.action && (
            <Button
              isCompact
              onPress={() => {
                one.content.action?.run()
                queue.close(one.key)
              }}
            >
              {one.content.action.label}
            </Button>
          )}
          <Button isCompact slot="close" aria-label="Close">
            ×
          </Button>
        </Toast>
      )}
    </ToastRegion>
  )
}
