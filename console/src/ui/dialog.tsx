import { useIsMutating } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { Dialog as AriaDialog } from 'react-aria-components/Dialog'
import { Heading, Modal, ModalOverlay } from 'react-aria-components/Modal'
import { Button } from './button.tsx'
import { ErrorNotice } from './states.tsx'

interface DialogProps {
  title: string
  isOpen: boolean
  onClose: () => void
  isWide?: boolean
  /**
   * If true, Escape and clicks outside do not close the dialog, for example while it shows a secret for the only time.
   */
  isLocked?: boolean
  children: ReactNode
}

/** A modal dialog. Escape or a click outside closes it, except while a change is in progress. */
export function Dialog({ title, isOpen, onClose, isWide = false, isLocked = false, children }: DialogProps) {
  const mustStay = useIsMutating() > 0 || isLocked
  return (
    <ModalOverlay
      className="overlay"
      isOpen={isOpen}
      onOpenChange={(open) => !open && onClose()}
      isDismissable={!mustStay}
      isKeyboardDismissDisabled={mustStay}
    >
      <Modal className={isWide ? 'modal wide' : 'modal'}>
        <AriaDialog>
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}

interface ConfirmProps extends Omit<DialogProps, 'isWide' | 'isLocked'> {
  /** The label of the button, such as "Revoke client". */
  action: string
  isDangerous?: boolean
  onConfirm: () => Promise<unknown>
}

/** Asks for confirmation and runs the action. If the action fails, stays open and shows the error. */
export function Confirm({ action, isDangerous = false, onConfirm, onClose, children, ...dialog }: ConfirmProps) {
  const [state, setState] = useState<{ isRunning: boolean; error: unknown }>({ isRunning: false, error: null })
  const close = () => {
    setState({ isRunning: false, error: null })
    onClose()
  }
  const run = () => {
    setState({ isRunning: true, error: null })
    onConfirm().then(close, (error: unknown) => setState({ isRunning: false, error }))
  }
  return (
    <Dialog {...dialog} isLocked={state.isRunning} onClose={close}>
      {children}
      <ErrorNotice error={state.error} />
      <div className="row end">
        <Button isDisabled={state.isRunning} onPress={close}>
          Cancel
        </Button>
        <Button look={isDangerous ? 'danger' : 'primary'} isDisabled={state.isRunning} onPress={run}>
          {action}
        </Button>
      </div>
    </Dialog>
  )
}
